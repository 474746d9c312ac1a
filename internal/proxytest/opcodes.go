package proxytest

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Opcodes of ZooKeeper's protocol. OpConnect is not on the wire: it stands for
// a connection's ConnectRequest (the number is the server's own for it).
const (
	OpConnect     int32 = -10
	OpClose       int32 = -11
	OpCreate      int32 = 1
	OpDelete      int32 = 2
	OpExists      int32 = 3
	OpGetData     int32 = 4
	OpSetData     int32 = 5
	OpGetACL      int32 = 6
	OpSetACL      int32 = 7
	OpGetChildren int32 = 8
	OpSync        int32 = 9
	OpPing        int32 = 11
	OpChildren2   int32 = 12
	OpCheck       int32 = 13
	OpMulti       int32 = 14
	OpCreate2     int32 = 15
	OpSetWatches  int32 = 101
)

// MatchOp matches requests with any of the opcodes.
func MatchOp(opcodes ...int32) func(opcode int32, payload []byte) bool {
	return func(opcode int32, _ []byte) bool { return slices.Contains(opcodes, opcode) }
}

// MatchPath matches requests with the opcode whose path, as RequestPath returns
// it, begins with prefix.
func MatchPath(op int32, prefix string) func(opcode int32, payload []byte) bool {
	return func(opcode int32, payload []byte) bool {
		return opcode == op && strings.HasPrefix(RequestPath(opcode, payload), prefix)
	}
}

// matchOrAny replaces nil by what it stands for.
func matchOrAny(match func(int32, []byte) bool) func(int32, []byte) bool {
	if match != nil {
		return match
	}
	return func(opcode int32, _ []byte) bool { return opcode != OpPing && opcode != OpConnect }
}

// RequestPath returns the path of a request about one node, and the path of the
// first operation of a multi. It returns "" for other requests.
func RequestPath(opcode int32, payload []byte) string {
	switch opcode {
	case OpMulti:
		// Each operation has a header: type, a "done" byte, and an error.
		const header = 4 + 1 + 4
		if len(payload) < header || payload[4] != 0 {
			return ""
		}
		payload = payload[header:]
	case OpCreate, OpCreate2, OpDelete, OpExists, OpGetData, OpSetData, OpGetACL, OpSetACL,
		OpGetChildren, OpChildren2, OpSync, OpCheck:
	default:
		return ""
	}
	if len(payload) < 4 {
		return ""
	}
	length := int64(binary.BigEndian.Uint32(payload))
	if length > int64(len(payload)-4) {
		return ""
	}
	return string(payload[4 : 4+length])
}

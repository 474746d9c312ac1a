package proxytest

import "slices"

// Opcodes of ZooKeeper's protocol. OpConnect is not on the wire: it means a connection's ConnectRequest
// (the server itself uses this number for it).
const (
	OpConnect    int32 = -10
	OpClose      int32 = -11
	OpCreate     int32 = 1
	OpDelete     int32 = 2
	OpExists     int32 = 3
	OpGetData    int32 = 4
	OpSetData    int32 = 5
	OpSync       int32 = 9
	OpPing       int32 = 11
	OpChildren2  int32 = 12
	OpCheck      int32 = 13
	OpMulti      int32 = 14
	OpCreate2    int32 = 15
	OpSetWatches int32 = 101
	OpSASL       int32 = 102
)

// MatchOp matches requests with any of the opcodes.
func MatchOp(opcodes ...int32) Match {
	return func(opcode int32, _ []byte) bool { return slices.Contains(opcodes, opcode) }
}

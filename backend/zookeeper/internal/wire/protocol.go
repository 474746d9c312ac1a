package wire

import (
	"errors"
	"fmt"
)

// Opcodes, numbers of requests, and error codes.
const (
	OpClose      = -11
	OpCreate     = 1
	OpDelete     = 2
	OpExists     = 3
	OpGetData    = 4
	OpSetData    = 5
	OpSetACL     = 7
	OpSync       = 9
	OpPing       = 11
	OpChildren   = 12 // getChildren2
	OpCheck      = 13
	OpMulti      = 14
	opCreate2    = 15
	OpUnwatch    = 18 // removeWatches
	OpAuth       = 100
	OpSetWatches = 101
	OpSASL       = 102
	xidEvent     = -1
	xidPing      = -2
	xidAuth      = -4
	codeNoNode   = -101
	codeNoAuth   = -102
	codeExpired  = -112
	codeMoved    = -118
	CodeTooLong  = -2000 // not a server's code: the reply was longer than the Pin accepts

	connectHead = 4 + 4 + 8 + 4 + 8 // length, version, zxid, timeout, session
	requestHead = 4 + 4 + 4         // length, xid, opcode
	answerHead  = 4 + 8 + 4         // xid, zxid, error
	statLength  = 68

	// PasswordLength is the length of a session's password, as servers make it.
	PasswordLength = 16
	// lookAhead is how much of a frame can be looked at in place: the heads of all, and the connect
	// response, for which servers send 45 bytes. Each session has a buffer of this size.
	lookAhead = 512
	// maxWhole is the largest reply to a write. Servers accept requests of 1 MB by default.
	maxWhole = 16 << 20
)

// Errors of a Link, and of a Talk.
var (
	ErrUnpinned = errors.New("refused: the client would go on in another session")
	ErrProtocol = errors.New("protocol violation")
	ErrForeign  = fmt.Errorf("%w: the server is not Apache ZooKeeper: it grants sessions without a password, as ClickHouse Keeper and RaftKeeper do; "+
		"nothing proves there until when a session lives, and on ClickHouse Keeper it ends with its connection", errors.ErrUnsupported)
)

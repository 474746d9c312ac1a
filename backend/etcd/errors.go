package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// as returns an error that is both the sentinel and the client's own error.
func as(sentinel, native error) error { return fmt.Errorf("%w: %w", sentinel, native) }

// A class says what an error means for its request.
type class int

const (
	// unknown: it may have been done. A read is sent again. resolve looks for a write, which is made
	// again if it was not done. An error that is not in the table is unknown.
	unknown class = iota
	// notDone: nothing was done, and the request is sent again.
	notDone
	// final: nothing was done, and waiting does not change that.
	final
	// over: the session is over.
	over
)

// A meaning is the class of an error, and the error of a call that gives up on it.
type meaning struct {
	class class
	as    error // nil: none of the contract's
	// stop: the call gives up at once. Other errors are ridden out, and given up after a session
	// timeout of such replies, or after five requests without a reply (see driver.Bout): while
	// heartbeats succeed nothing else would report them.
	stop bool
}

// down is the meaning of what is ridden out: ErrUnavailable once it is given up. The campaign then
// tries again, with growing pauses, and reports it (Hooks.Retry).
var down = backend.ErrUnavailable

// etcdAnswers are the errors of etcd's servers and client, by their text. Only "over" ends a session:
// heartbeats ride out all others, until the trust window ends.
var etcdAnswers = map[string]meaning{
	// The session's lease.
	"etcdserver: requested lease not found": {over, nil, true}, // expired, or revoked

	// What no member can do now, though a quorum may have done it.
	"etcdserver: no leader":         {unknown, down, false}, // of open streams, too
	"etcdserver: leader changed":    {unknown, down, false},
	"etcdserver: server stopped":    {unknown, down, false},
	"etcdserver: request timed out": {unknown, down, false},
	"etcdserver: request timed out, possibly due to previous leader failure":     {unknown, down, false},
	"etcdserver: request timed out, possibly due to connection lost":             {unknown, down, false},
	"etcdserver: request timed out, waiting for the applied index took too long": {unknown, down, false},
	"etcdserver: request timed out, leader transfer took too long":               {unknown, down, false}, // without a code
	"raft proposal dropped":                     {unknown, down, false}, // without a code, while leadership moves
	"etcdserver: request canceled":              {unknown, down, false},
	"etcdserver: request cancelled":             {unknown, down, false}, // without a code
	"etcdserver: context deadline exceeded":     {unknown, down, false},
	"etcdserver: watch canceled":                {unknown, down, false},
	"etcdserver: unhealthy cluster":             {unknown, down, false},
	"etcdserver: corrupt cluster":               {unknown, down, false}, // until an operator disarms the alarm
	"etcdserver: too many requests":             {notDone, down, false}, // refused before it is proposed
	"etcdserver: not leader":                    {notDone, down, false},
	"etcdserver: rpc not supported for learner": {notDone, down, false}, // another member supports it
	"etcdserver: not capable":                   {notDone, down, false}, // during an upgrade
	"etcdserver: lease already exists":          {notDone, down, false}, // by chance: the server chose its ID

	// A server that finds no space while it applies a transaction applies it, and says this. An
	// operator makes room, which takes longer than a call should wait in silence.
	"etcdserver: mvcc: database space exceeded": {unknown, down, true},
	"etcdserver: no space":                      {unknown, down, true}, // without a code

	// Credentials. The client fetches a new token by itself. That takes a while if it was given a token
	// that has run out, or if the servers have no quorum to check a password.
	"etcdserver: invalid auth token":                                 {notDone, backend.ErrDenied, false},
	"etcdserver: revision of auth store is old":                      {notDone, down, false}, // an operator has just changed rights
	"etcdserver: permission denied":                                  {final, backend.ErrDenied, true},
	"etcdserver: user name is empty":                                 {final, backend.ErrDenied, true},
	"etcdserver: authentication failed, invalid user ID or password": {final, backend.ErrDenied, true},
	"etcdserver: invalid auth management":                            {final, backend.ErrDenied, true},
	"etcdserver: authentication is not enabled":                      {notDone, down, false}, // the client drops its token

	// The request itself.
	"etcdserver: too many operations in txn request": {final, backend.ErrTooLarge, true},
	"etcdserver: request is too large":               {final, backend.ErrTooLarge, true},
	"etcdserver: key is not provided":                {final, nil, true},
	"etcdserver: key not found":                      {final, nil, true},
	"etcdserver: value is provided":                  {final, nil, true},
	"etcdserver: lease is provided":                  {final, nil, true},
	"etcdserver: duplicate key given in txn request": {final, nil, true},
	"etcdserver: invalid client api version":         {final, nil, true},
	"etcdserver: invalid sort option":                {final, nil, true},
	"etcdserver: too large lease TTL":                {final, nil, true},
	// The revision that was asked for.
	"etcdserver: mvcc: required revision has been compacted":   {final, nil, true},
	"etcdserver: mvcc: required revision is a future revision": {notDone, down, false}, // a member that lags

	// The client: somebody has closed it. Pending requests may have been done.
	"grpc: the client connection is closing": {unknown, nil, true},
}

// codeAnswers are the meanings of all other errors, by gRPC code. They come from a server that is newer
// than the table or treats the request as an operator's, from gRPC itself, or from something in
// between, whose HTTP status gRPC turns into a code.
var codeAnswers = map[codes.Code]meaning{
	codes.Canceled:           {unknown, down, false}, // by the caller, or a connection that was closed
	codes.DeadlineExceeded:   {unknown, down, false},
	codes.Unavailable:        {unknown, down, false}, // no connection, or one that broke; 429, 502, 503, 504
	codes.Unknown:            {unknown, down, false}, // all server errors without a code; any other HTTP status
	codes.Internal:           {unknown, down, false}, // 400, and what gRPC cannot read
	codes.Aborted:            {unknown, down, false},
	codes.AlreadyExists:      {unknown, down, false},
	codes.DataLoss:           {unknown, down, false},
	codes.FailedPrecondition: {unknown, down, false},
	codes.NotFound:           {unknown, down, false},
	codes.OutOfRange:         {unknown, down, false},
	codes.ResourceExhausted:  {unknown, down, false}, // a limit on requests; see also mean
	// etcd uses its own texts for what it refuses for good. A proxy may refuse for a moment.
	codes.InvalidArgument:  {unknown, nil, false},
	codes.Unimplemented:    {unknown, nil, false},               // 404: no etcd is behind this address, or none just now
	codes.PermissionDenied: {unknown, backend.ErrDenied, false}, // 403
	codes.Unauthenticated:  {unknown, backend.ErrDenied, false}, // 401
}

// errHollow is a reply without what every reply of etcd's contains.
var errHollow = errors.New("an answer without anything in it, which is not etcd's")

// whole returns errHollow unless the reply has a header and n responses.
func whole(h *pb.ResponseHeader, responses, n int) error {
	if h.GetRevision() <= 0 || responses != n {
		return errHollow
	}
	return nil
}

// wholeTxn is whole for a transaction with these numbers of operations.
func wholeTxn(answer *clientv3.TxnResponse, err error, then, otherwise int) (*clientv3.TxnResponse, error) {
	if err == nil {
		n := otherwise
		if answer.Succeeded {
			n = then
		}
		err = whole(answer.Header, len(answer.Responses), n)
	}
	return answer, err
}

// mean returns what an error means.
func mean(err error) meaning {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return codeAnswers[codes.Canceled] // the caller's or our own time-out: no reply
	}
	text, c := said(err)
	if m, ok := etcdAnswers[text]; ok {
		return m
	}
	if c == codes.ResourceExhausted && strings.Contains(text, "larger than max") {
		// A limit of gRPC's: the client's MaxCallSendMsgSize, or else one on the reply.
		if strings.HasPrefix(text, "trying to send") {
			return meaning{final, backend.ErrTooLarge, true}
		}
		return meaning{unknown, backend.ErrTooLarge, true}
	}
	if m, ok := codeAnswers[c]; ok {
		return m
	}
	return meaning{unknown, down, false}
}

// said returns the text and the gRPC code of an error, however it is wrapped.
func said(err error) (string, codes.Code) {
	var server rpctypes.EtcdError
	if errors.As(err, &server) {
		return server.Error(), server.Code()
	}
	var answer interface{ GRPCStatus() *status.Status }
	if errors.As(err, &answer) {
		return answer.GRPCStatus().Message(), answer.GRPCStatus().Code()
	}
	return err.Error(), codes.Unknown
}

// passing reports whether a request that may safely be done twice may be sent again.
func passing(err error) bool {
	m := mean(err)
	return (m.class == unknown || m.class == notDone) && !m.stop
}

func isDenied(err error) bool { return mean(err).as == backend.ErrDenied }

// isForbidden reports whether the servers deny the right, rather than something in front of them, and
// not because of a token that may be renewed.
func isForbidden(err error) bool { return isDenied(err) && mean(err).class == final }

// is compares with one of the server's errors, whether or not the client has converted it.
func is(err, target error) bool {
	return errors.Is(err, target) || errors.Is(rpctypes.Error(err), target)
}

// answerError returns the error of a call that gives up on err.
func answerError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded): // of the request
		return fmt.Errorf("%w: no answer in time (%v)", down, err)
	}
	if m := mean(err); m.as != nil {
		return as(m.as, err)
	}
	return err
}

// givesUp reports whether a request that failed with err is no longer ridden out.
func (s *session) givesUp(on *driver.Bout, err error) bool {
	if errors.Is(err, context.Canceled) {
		return false // by ctx, or by the end of the session
	}
	over := on.Over(s.TTL())
	if on.First() {
		s.cfg.Logger.Info("etcd: a request is refused; trying again", "session", s.ID(), "error", err)
	}
	return over
}

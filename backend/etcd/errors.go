package etcd

import (
	"cmp"
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

// etcdAnswers are the errors of etcd's servers and client, by their text. Only Over ends a session:
// heartbeats ride out all others, until the trust window ends.
var etcdAnswers = map[string]driver.Meaning{
	// The session's lease.
	"etcdserver: requested lease not found": driver.Over, // expired, or revoked

	// What no member can do now, though a quorum may have done it.
	"etcdserver: no leader":         driver.Unknown, // of open streams, too
	"etcdserver: leader changed":    driver.Unknown,
	"etcdserver: server stopped":    driver.Unknown,
	"etcdserver: request timed out": driver.Unknown,
	"etcdserver: request timed out, possibly due to previous leader failure":     driver.Unknown,
	"etcdserver: request timed out, possibly due to connection lost":             driver.Unknown,
	"etcdserver: request timed out, waiting for the applied index took too long": driver.Unknown,
	"etcdserver: request timed out, leader transfer took too long":               driver.Unknown, // without a code
	"raft proposal dropped":                     driver.Unknown, // without a code, while leadership moves
	"etcdserver: request canceled":              driver.Unknown,
	"etcdserver: request cancelled":             driver.Unknown, // without a code
	"etcdserver: context deadline exceeded":     driver.Unknown,
	"etcdserver: watch canceled":                driver.Unknown,
	"etcdserver: unhealthy cluster":             driver.Unknown,
	"etcdserver: corrupt cluster":               driver.Unknown, // until an operator disarms the alarm
	"etcdserver: too many requests":             driver.NotDone, // refused before it is proposed
	"etcdserver: not leader":                    driver.NotDone,
	"etcdserver: rpc not supported for learner": driver.NotDone, // another member supports it
	"etcdserver: not capable":                   driver.NotDone, // during an upgrade
	"etcdserver: lease already exists":          driver.NotDone, // by chance: the server chose its ID

	// A server that finds no space while it applies a transaction applies it, and says this. An
	// operator makes room, which takes longer than a call should wait in silence.
	"etcdserver: mvcc: database space exceeded": driver.Unknown.AtOnce(),
	"etcdserver: no space":                      driver.Unknown.AtOnce(), // without a code

	// Credentials. The client fetches a new token by itself. That takes a while if it was given a token
	// that has run out, or if the servers have no quorum to check a password.
	"etcdserver: invalid auth token":                                 driver.NotDone.As(backend.ErrDenied),
	"etcdserver: revision of auth store is old":                      driver.NotDone, // an operator has just changed rights
	"etcdserver: permission denied":                                  driver.Final.As(backend.ErrDenied),
	"etcdserver: user name is empty":                                 driver.Final.As(backend.ErrDenied),
	"etcdserver: authentication failed, invalid user ID or password": driver.Final.As(backend.ErrDenied),
	"etcdserver: invalid auth management":                            driver.Final.As(backend.ErrDenied),
	"etcdserver: authentication is not enabled":                      driver.NotDone, // the client drops its token

	// The request itself.
	"etcdserver: too many operations in txn request": driver.Final.As(backend.ErrTooLarge),
	"etcdserver: request is too large":               driver.Final.As(backend.ErrTooLarge),
	"etcdserver: key is not provided":                driver.Final,
	"etcdserver: key not found":                      driver.Final,
	"etcdserver: value is provided":                  driver.Final,
	"etcdserver: lease is provided":                  driver.Final,
	"etcdserver: duplicate key given in txn request": driver.Final,
	"etcdserver: invalid client api version":         driver.Final,
	"etcdserver: invalid sort option":                driver.Final,
	"etcdserver: too large lease TTL":                driver.Final,
	// The revision that was asked for.
	"etcdserver: mvcc: required revision has been compacted":   driver.Final,
	"etcdserver: mvcc: required revision is a future revision": driver.NotDone, // a member that lags

	// The client: somebody has closed it. Pending requests may have been done.
	"grpc: the client connection is closing": driver.Unknown.As(nil).AtOnce(),
}

// codeAnswers are the meanings of all other errors, by gRPC code. They come from a server that is newer
// than the table or treats the request as an operator's, from gRPC itself, or from something in
// between, whose HTTP status gRPC turns into a code.
var codeAnswers = map[codes.Code]driver.Meaning{
	codes.Canceled:           driver.Unknown, // by the caller, or a connection that was closed
	codes.DeadlineExceeded:   driver.Unknown,
	codes.Unavailable:        driver.Unknown, // no connection, or one that broke; 429, 502, 503, 504
	codes.Unknown:            driver.Unknown, // all server errors without a code; any other HTTP status
	codes.Internal:           driver.Unknown, // 400, and what gRPC cannot read
	codes.Aborted:            driver.Unknown,
	codes.AlreadyExists:      driver.Unknown,
	codes.DataLoss:           driver.Unknown,
	codes.FailedPrecondition: driver.Unknown,
	codes.NotFound:           driver.Unknown,
	codes.OutOfRange:         driver.Unknown,
	codes.ResourceExhausted:  driver.Unknown, // a limit on requests; see also mean
	// etcd uses its own texts for what it refuses for good. A proxy may refuse for a moment.
	codes.InvalidArgument:  driver.Unknown.As(nil),
	codes.Unimplemented:    driver.Unknown.As(nil),               // 404: no etcd is behind this address, or none just now
	codes.PermissionDenied: driver.Unknown.As(backend.ErrDenied), // 403
	codes.Unauthenticated:  driver.Unknown.As(backend.ErrDenied), // 401
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
func mean(err error) driver.Meaning {
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
			return driver.Final.As(backend.ErrTooLarge)
		}
		return driver.Unknown.As(backend.ErrTooLarge).AtOnce()
	}
	return cmp.Or(codeAnswers[c], driver.Unknown)
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
func passing(err error) bool { return !mean(err).Stop }

// isForbidden reports whether the servers deny the right, rather than something in front of them, and
// not because of a token that may be renewed.
func isForbidden(err error) bool { return mean(err) == driver.Final.As(backend.ErrDenied) }

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
		return fmt.Errorf("%w: no answer in time (%v)", backend.ErrUnavailable, err)
	}
	if m := mean(err); m.Sentinel != nil {
		return as(m.Sentinel, err)
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

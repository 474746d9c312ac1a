package dial

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/elector-go/elector/internal/environment"
)

// A login adds the token of a user to all requests to etcd. The client library can do that, too, but its
// New then waits for a server, and keeps for good the password that it was given.
type login struct {
	user     string
	password func() string

	turn  chan struct{}         // held while logging in
	token atomic.Pointer[token] // nil before the first
}

type token struct {
	text  string      // "" if the servers want none
	stale atomic.Bool // a stream that bore it was refused
}

// outlives reports whether the token is good although a request with it was refused with err. A token that
// is a name for what a server remembers has no revision of its own: a change of users has overtaken the
// request. A JSON Web Token, of three parts, names the revision at which it was made.
func (t *token) outlives(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrAuthOldRevision) && strings.Count(t.text, ".") == 1
}

// readLogin reads the user and the password, by etcdctl's rules. It returns nil if there is none.
func readLogin(e *environment.Reader) *login {
	const (
		userVariable = "ETCDCTL_USER"
		variable     = "ETCDCTL_PASSWORD"
		fromFile     = variable + "_FILE"
	)
	user, password := environment.TrimNewline(os.Getenv(userVariable)), e.Secret(variable)
	given := os.Getenv(variable) != "" || os.Getenv(fromFile) != ""
	switch {
	case user == "" && given:
		e.Fault("%s has a password, and there is no user: set %s", variable, userVariable)
		return nil
	case user == "":
		return nil
	case !given:
		var ok bool
		if user, password, ok = strings.Cut(user, ":"); !ok || password == "" {
			e.Fault("%s has no password: give user:password, or set %s or %s", userVariable, variable, fromFile)
		}
	}
	l := &login{user: user, turn: make(chan struct{}, 1), password: func() string { return password }}
	if path := os.Getenv(fromFile); path != "" {
		l.password = func() string { // it may have been changed
			if text, err := os.ReadFile(path); err == nil && environment.TrimNewline(string(text)) != "" {
				return environment.TrimNewline(string(text))
			}
			return password
		}
	}
	return l
}

// unary adds the token to a request. A request that is refused for its token was not done, and is sent
// again with the next token. If a change of users has overtaken it, it may bear the same token: many
// requests are refused then, and a login for each process would keep the servers busy for seconds.
func (l *login) unary(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method == pb.Auth_Authenticate_FullMethodName {
		return invoke(ctx, method, request, answer, conn, opts...)
	}
	var err error
	token := l.token.Load()
	fresh := token == nil
	if fresh {
		if token, err = l.renew(ctx, conn, nil); err != nil {
			return err
		}
	}
	err = invoke(bearing(ctx, token), method, request, answer, conn, opts...)
	if token.outlives(err) {
		err = invoke(bearing(ctx, token), method, request, answer, conn, opts...)
	}
	if fresh || !refused(err) {
		return err
	}
	if token, err = l.renew(ctx, conn, token); err != nil {
		return err
	}
	return invoke(bearing(ctx, token), method, request, answer, conn, opts...)
}

// stream adds the token to a stream, which keeps it. Only the stream's replies show that the token is
// refused, as when it has run out; then the next stream has another one. With a password each login takes
// the servers tens of milliseconds of processor time, and many streams are opened at once.
func (l *login) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	token := l.token.Load()
	if token == nil || token.stale.Load() {
		var err error
		if token, err = l.renew(ctx, conn, token); err != nil {
			return nil, err
		}
	}
	s, err := open(bearing(ctx, token), desc, conn, method, opts...)
	if err != nil {
		return nil, err
	}
	return &bearer{s, token}, nil
}

// A bearer is a stream that notes when its token is refused.
type bearer struct {
	grpc.ClientStream
	token *token
}

func (s *bearer) RecvMsg(answer any) error {
	err := s.ClientStream.RecvMsg(answer)
	why := err
	if watch, ok := answer.(*pb.WatchResponse); ok && err == nil && watch.Canceled {
		why = refusals[watch.CancelReason]
	}
	if refused(why) && !s.token.outlives(why) {
		s.token.stale.Store(true)
	}
	return err
}

// refusals are the errors with which servers refuse tokens, by the text that a watch reports.
var refusals = map[string]error{
	rpctypes.ErrGRPCInvalidAuthToken.Error(): rpctypes.ErrGRPCInvalidAuthToken,
	rpctypes.ErrGRPCAuthOldRevision.Error():  rpctypes.ErrGRPCAuthOldRevision,
	rpctypes.ErrGRPCUserEmpty.Error():        rpctypes.ErrGRPCUserEmpty,
}

// bearing returns ctx for a request that bears the token.
func bearing(ctx context.Context, token *token) context.Context {
	if token.text == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token.text)
}

// refused reports whether the servers do not accept a token: it has run out, the server was restarted,
// users were changed, or authentication was switched on.
func refused(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) || errors.Is(err, rpctypes.ErrUserEmpty)
}

// renew logs in, unless another request has done so since the old token was read. It blocks while no server
// can be reached, until ctx ends.
func (l *login) renew(ctx context.Context, conn *grpc.ClientConn, old *token) (*token, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	defer func() { <-l.turn }()
	if now := l.token.Load(); now != old {
		return now, nil
	}
	made := new(token)
	answer, err := pb.NewAuthClient(conn).Authenticate(ctx, &pb.AuthenticateRequest{Name: l.user, Password: l.password()}, grpc.WaitForReady(true))
	switch {
	case err == nil:
		made.text = answer.Token
	case !errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled):
		return nil, err
	}
	l.token.Store(made)
	return made, nil
}

package etcd

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/internal/must"
)

// rpcErrors returns the errors of package rpctypes, as its source makes them.
func rpcErrors(t *testing.T) map[string]codes.Code {
	t.Helper()
	dir := must.Get(exec.Command("go", "list", "-f", "{{.Dir}}", "go.etcd.io/etcd/api/v3/v3rpc/rpctypes").Output())(t)
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "error.go"), nil, 0)
	require.NoError(t, err)
	all := make(map[string]codes.Code)
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "Error" || f.X.(*ast.Ident).Name != "status" {
			return true
		}
		text := must.Get(strconv.Unquote(call.Args[1].(*ast.BasicLit).Value))(t)
		name, c := call.Args[0].(*ast.SelectorExpr).Sel.Name, codes.OK
		for c.String() != name {
			require.Less(t, c, codes.Code(100), name)
			c++
		}
		all[text] = c
		return true
	})
	if len(all) < 60 {
		t.Fatalf("found %d errors in rpctypes", len(all))
	}
	return all
}

// operatorsOnly are replies to operators' requests only, such as those that change members, users or
// versions. This package sends none of these, so they mean what their code does.
var operatorsOnly = []string{
	"member ID already exist", "Peer URLs already exists", "re-configuration failed due to not enough started members",
	"given member URLs are invalid", "member not found", "can only promote a learner member",
	"can only promote a learner member which is in sync with leader", "too many learner members in cluster", "cluster ID mismatch",
	"bad leader transferee", "root user does not exist", "root user does not have root role", "user name already exists",
	"user name not found", "role name already exists", "role name not found", "role name is empty", "permission not given",
	"role is not granted to the user", "permission is not granted to the role", "wrong downgrade target version format",
	"invalid downgrade target version", "cluster version not found during downgrade", "cluster has a downgrade job in progress",
	"no inflight downgrade job",
}

// The table names each other error that the servers have a code for; a new one in rpctypes must be
// classified.
func TestTableNamesEveryError(t *testing.T) {
	for text, c := range rpcErrors(t) {
		m, ok := etcdAnswers[text]
		if slices.Contains(operatorsOnly, strings.TrimPrefix(text, "etcdserver: ")) {
			m, ok = codeAnswers[c], !ok
		}
		if !ok {
			t.Errorf("the table lacks %q, %v", text, c)
			continue
		}
		native := status.Error(c, text)
		for _, err := range []error{native, rpctypes.Error(native), fmt.Errorf("get /x: %w", native), fmt.Errorf("get /x: %w", rpctypes.Error(native))} {
			if mean(err) != m {
				t.Errorf("%#v means %v, want %v", err, mean(err), m)
			}
		}
	}
}

// Each gRPC code has a meaning; a new one must be classified.
func TestTableNamesEveryCode(t *testing.T) {
	more := map[codes.Code]driver.Meaning{
		codes.InvalidArgument: driver.Unknown.As(nil), codes.Unimplemented: driver.Unknown.As(nil),
		codes.PermissionDenied: driver.Unknown.As(backend.ErrDenied), codes.Unauthenticated: driver.Unknown.As(backend.ErrDenied),
	}
	for c := codes.Canceled; !strings.HasPrefix(c.String(), "Code("); c++ {
		if _, ok := codeAnswers[c]; !ok {
			t.Errorf("the table lacks %v", c)
		}
		want, ok := more[c]
		if !ok {
			want = driver.Unknown
		}
		if got := mean(status.Error(c, "who knows")); got != want {
			t.Errorf("%v means %v, want %v", c, got, want)
		}
	}
	if got := mean(status.Error(99, "who knows")); got != driver.Unknown {
		t.Errorf("an unknown code means %v", got)
	}
}

func TestMeaningsOfTheRest(t *testing.T) {
	for _, c := range []struct {
		err  error
		want driver.Meaning
	}{
		{context.Canceled, driver.Unknown},
		{fmt.Errorf("asking: %w", context.DeadlineExceeded), driver.Unknown},
		{errors.New("no gRPC at all"), driver.Unknown},
		{status.Error(codes.Unknown, "raft proposal dropped"), driver.Unknown},
		{status.Error(codes.Unknown, "etcdserver: no space"), driver.Unknown.AtOnce()},
		{status.Error(codes.Canceled, "grpc: the client connection is closing"), driver.Unknown.As(nil).AtOnce()},
		{status.Error(codes.ResourceExhausted, "trying to send message larger than max (12 vs. 10)"), driver.Final.As(backend.ErrTooLarge)},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max (12 vs. 10)"), driver.Unknown.As(backend.ErrTooLarge).AtOnce()},
		{status.Error(codes.ResourceExhausted, "rate limit"), driver.Unknown},
		{rpctypes.ErrLeaseNotFound, driver.Over},
		{rpctypes.ErrNoSpace, driver.Unknown.AtOnce()},
		{rpctypes.ErrPermissionDenied, driver.Final.As(backend.ErrDenied)},
		{rpctypes.ErrInvalidAuthToken, driver.NotDone.As(backend.ErrDenied)},
		{rpctypes.ErrTooManyRequests, driver.NotDone},
		{rpctypes.ErrTooManyOps, driver.Final.As(backend.ErrTooLarge)},
	} {
		if got := mean(c.err); got != c.want {
			t.Errorf("%v means %v, want %v", c.err, got, c.want)
		}
	}
}

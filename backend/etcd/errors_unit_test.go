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
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elector-go/elector/backend"
)

// rpcErrors are the errors that package rpctypes has, as its source makes them.
func rpcErrors(t *testing.T) map[string]codes.Code {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "go.etcd.io/etcd/api/v3/v3rpc/rpctypes").Output()
	require.NoError(t, err)
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
		text, err := strconv.Unquote(call.Args[1].(*ast.BasicLit).Value)
		require.NoError(t, err)
		var c codes.Code
		require.NoError(t, c.UnmarshalJSON([]byte(`"`+jsonName(call.Args[0].(*ast.SelectorExpr).Sel.Name)+`"`)))
		all[text] = c
		return true
	})
	if len(all) < 60 {
		t.Fatalf("found %d errors in rpctypes", len(all))
	}
	return all
}

// jsonName is what gRPC calls a code in JSON: NOT_FOUND for NotFound.
func jsonName(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.Replace(strings.ToUpper(b.String()), "CANCELED", "CANCELLED", 1)
}

// The table names each error that the servers have a code for. One that is new in
// rpctypes is to be thought about.
func TestTableNamesEveryError(t *testing.T) {
	for text, c := range rpcErrors(t) {
		m, ok := etcdAnswers[text]
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

// Each gRPC code means something, whoever says it.
func TestTableNamesEveryCode(t *testing.T) {
	denied, unsaid := backend.ErrDenied, error(nil)
	want := map[codes.Code]meaning{
		codes.Canceled: {unknown, down, false}, codes.Unknown: {unknown, down, false}, codes.InvalidArgument: {unknown, unsaid, false},
		codes.DeadlineExceeded: {unknown, down, false}, codes.NotFound: {unknown, down, false}, codes.AlreadyExists: {unknown, down, false},
		codes.PermissionDenied: {unknown, denied, false}, codes.ResourceExhausted: {unknown, down, false}, codes.FailedPrecondition: {unknown, down, false},
		codes.Aborted: {unknown, down, false}, codes.OutOfRange: {unknown, down, false}, codes.Unimplemented: {unknown, unsaid, false},
		codes.Internal: {unknown, down, false}, codes.Unavailable: {unknown, down, false}, codes.DataLoss: {unknown, down, false},
		codes.Unauthenticated: {unknown, denied, false},
	}
	for c := codes.Canceled; ; c++ {
		if strings.HasPrefix(c.String(), "Code(") { // no more of them
			break
		}
		if _, ok := want[c]; !ok {
			t.Errorf("%v is not tried", c)
		}
		if got := mean(status.Error(c, "who knows")); got != want[c] {
			t.Errorf("%v means %v, want %v", c, got, want[c])
		}
	}
	if got := mean(status.Error(99, "who knows")); got != (meaning{unknown, down, false}) {
		t.Errorf("an unknown code means %v", got)
	}
}

func TestMeaningsOfTheRest(t *testing.T) {
	for _, c := range []struct {
		err  error
		want meaning
	}{
		{context.Canceled, meaning{unknown, down, false}},
		{fmt.Errorf("asking: %w", context.DeadlineExceeded), meaning{unknown, down, false}},
		{errors.New("no gRPC at all"), meaning{unknown, down, false}},
		{status.Error(codes.Unknown, "raft proposal dropped"), meaning{unknown, down, false}},
		{status.Error(codes.Unknown, "etcdserver: no space"), meaning{unknown, down, true}},
		{status.Error(codes.Canceled, "grpc: the client connection is closing"), meaning{unknown, nil, true}},
		{status.Error(codes.ResourceExhausted, "trying to send message larger than max (12 vs. 10)"), meaning{final, backend.ErrTooLarge, true}},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max (12 vs. 10)"), meaning{unknown, backend.ErrTooLarge, true}},
		{status.Error(codes.ResourceExhausted, "rate limit"), meaning{unknown, down, false}},
		{rpctypes.ErrLeaseNotFound, meaning{over, nil, true}},
		{rpctypes.ErrNoSpace, meaning{unknown, down, true}},
		{rpctypes.ErrPermissionDenied, meaning{final, backend.ErrDenied, true}},
		{rpctypes.ErrInvalidAuthToken, meaning{notDone, backend.ErrDenied, false}},
		{rpctypes.ErrTooManyRequests, meaning{notDone, down, false}},
		{rpctypes.ErrTooManyOps, meaning{final, backend.ErrTooLarge, true}},
	} {
		if got := mean(c.err); got != c.want {
			t.Errorf("%v means %v, want %v", c.err, got, c.want)
		}
	}
}

package consul_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// aclTTL is the timeout of sessions that have tokens. A refusal is ridden out for a third of it.
const aclTTL = 15 * time.Second

// token makes a token with these rules. may replaces them.
func token(t *testing.T, server *servertest.Consul, rules string) (secret string, may func(rules string)) {
	t.Helper()
	user := must.Get(consultest.Operator(server))(t)
	name := newName()
	policy := must.First(user.ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil))(t)
	made := must.First(user.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{Name: name}}}, nil))(t)
	may = func(rules string) {
		t.Helper()
		policy.Rules = rules
		must.First(user.ACL().PolicyUpdate(policy, nil))(t)
	}
	return made.SecretID, may
}

// with makes a process that has this token.
func with(t *testing.T, token string, server *servertest.Consul) *fixture {
	t.Helper()
	return processOn(t, consultest.Options{Token: token, Config: consul.Config{SessionTimeout: aclTTL}}, server)
}

// withRules makes a process on the shared server that has a token with these rules.
func withRules(t *testing.T, rules string) *fixture {
	t.Helper()
	server := withACL.ForTest(t)
	secret, _ := token(t, server, rules)
	return with(t, secret, server)
}

// An elector needs its own keys and those above, sessions, and the sessions' own keys.
const (
	own    = `key "a" { policy = "write" } key_prefix "a/" { policy = "write" } session "elector-sessions" { policy = "write" } `
	enough = own + `key_prefix ".elector/" { policy = "write" }`
	reads  = `key_prefix "a/" { policy = "read" } session "elector-sessions" { policy = "write" }`
)

func TestACL(t *testing.T) {
	t.Parallel()
	run := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // refusals are ridden out for a while
			test(t)
		})
	}
	run("enough", func(t *testing.T) {
		f := withRules(t, enough)
		f.S = f.open()
		f.Enter(newChild("/a"))
		e := f.Enqueue(f.S)
		seat := f.Commit(f.S, backend.CreateEphemeral(f.Dir+"/seat", nil))[0]
		for _, lose := range []func(func(api.TxnOps) bool){f.LoseReply, f.LoseRequest} {
			for _, op := range []backend.Op{
				backend.CreateEphemeral(newChild(f.Dir), []byte("x")), backend.Enqueue(f.Dir, []byte("x")),
				backend.CompareAndSet(newChild(f.Dir), []byte("x"), 0), backend.Update(e, []byte("x")), backend.Delete(f.Enqueue(f.S)),
			} {
				lose(consultest.MatchKind(op.Kind))
				if made := f.Commit(f.S, op); op.Kind != backend.OpDelete {
					f.Stands(f.S, made[0])
				}
			}
		}
		waiting := f.await(seat)
		require.NoError(t, f.S.Discard(f.Ctx, seat))
		wait.Value(f.T, waiting)

		f.Refused(f.S, backend.CompareAndSet("/b/d", nil, 0), backend.ErrDenied)
		f.Refused(f.S, backend.CreateEphemeral("/b", nil), backend.ErrDenied)
		_, err := f.S.Commit(f.Ctx, []backend.Condition{backend.IfExists(e)}, backend.CompareAndSet("/a/ok", nil, 0), backend.CompareAndSet("/ab", nil, 0))
		require.ErrorIs(t, err, backend.ErrDenied)
		f.Gone(f.S, "/a/ok")
		assert.Equal(t, backend.Live, f.S.State())
		require.NoError(t, f.S.Close(f.Ctx))
	})
	run("no keys of sessions", func(t *testing.T) {
		f := withRules(t, own)
		f.S = f.open()
		_, err := f.S.Commit(f.Ctx, nil, backend.CompareAndSet("/a/x", nil, 0))
		require.ErrorIs(t, err, backend.ErrDenied)
		require.ErrorContains(t, err, `".elector/"`)
	})
	for name, process := range map[string]func(*testing.T) *fixture{
		"no sessions": func(t *testing.T) *fixture { return withRules(t, `key_prefix "a/" { policy = "write" }`) },
		"sessions of agents only": func(t *testing.T) *fixture {
			return withRules(t, `key_prefix "a/" { policy = "write" } session_prefix "" { policy = "write" } session "elector-sessions" { policy = "deny" }`)
		},
		"unknown token": func(t *testing.T) *fixture {
			return with(t, "00000000-1111-2222-3333-444444444444", withACL.ForTest(t))
		},
		"no token": func(t *testing.T) *fixture { return with(t, "", withACL.ForTest(t)) },
	} {
		run(name, func(t *testing.T) {
			f := process(t)
			_, err := f.Backend.Open(f.Ctx, backend.OpenOptions{})
			require.ErrorIs(t, err, backend.ErrDenied)
			var status api.StatusError
			require.ErrorAs(t, err, &status)
			assert.Equal(t, http.StatusForbidden, status.Code)
			if strings.Contains(name, "agents") {
				require.ErrorContains(t, err, consul.SessionNode)
			}
		})
	}
	run("read only", func(t *testing.T) {
		f := withRules(t, reads)
		require.NoError(t, consultest.PutAll(f.Servers, "/a/r", []byte("x")))
		f.S = f.open()
		got := must.Get(f.S.Get(f.Ctx, "/a/r"))(t)
		assert.Equal(t, "x", string(got.Value))
		f.Refused(f.S, backend.CreateEphemeral("/a/seat", nil), backend.ErrDenied)
	})
	// Without the right to read, Consul hides what exists.
	run("elsewhere", func(t *testing.T) {
		f := withRules(t, enough)
		require.NoError(t, consultest.PutAll(f.Servers, "/b/secret", []byte("x")))
		f.S = f.open()
		_, err := f.S.Get(f.Ctx, "/b/secret")
		require.ErrorIs(t, err, backend.ErrDenied)
	})
}

// If the node that sessions are on does not exist and the token may not create it, Open says so, and
// how an operator can create it, which is enough.
func TestACLOfTheSessionNode(t *testing.T) {
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true, ACL: true})
	secret, may := token(t, server, enough)
	f := with(t, secret, server)
	_, err := f.Backend.Open(f.Ctx, backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrDenied)
	require.NotErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorContains(t, err, `node "elector-sessions" { policy = "write" }`)
	_, command, ok := strings.Cut(err.Error(), "-d '")
	require.True(t, ok, "%v", err)
	body, rest, _ := strings.Cut(command, "'")
	require.Contains(t, rest, "/v1/catalog/register")

	// As the error's text has it.
	must.Get(f.operator().Raw().Write("/v1/catalog/register", json.RawMessage(body), nil, nil))(t)
	f.S = f.open()
	require.NoError(t, f.S.Close(f.Ctx))

	must.Get(f.operator().Catalog().Deregister(&api.CatalogDeregistration{Node: consul.SessionNode}, nil))(t)
	may(enough + `node "elector-sessions" { policy = "write" }`)
	f.S = f.open()
	may(enough)
	require.NoError(t, f.S.Close(f.Ctx))
	f.S = f.open()
	require.NoError(t, f.S.Close(f.Ctx))
}

// Nothing ends when a restarted server refuses valid tokens while it reads its log: at first it knows
// none of them, and then it knows only old rights.
func TestServerReadsItsLog(t *testing.T) {
	servertest.Long(t, "a server that is restarted until a process meets it reading its log")
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true, ACL: true})
	operator := must.Get(consultest.Operator(server))(t)
	_, err := operator.Catalog().Register(&api.CatalogRegistration{Node: consul.SessionNode, Address: "127.0.0.1"}, nil)
	require.NoError(t, err) // then the token needs no right to it
	put := func(n int) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := range n / 8 {
					_, err := operator.KV().Put(&api.KVPair{Key: fmt.Sprintf("log/%d-%d", i, j), Value: make([]byte, 500)}, nil)
					assert.NoError(t, err)
				}
			})
		}
		all.Wait()
	}
	put(2000)
	secret, may := token(t, server, own)
	put(500)
	may(enough)

	f := processOn(t, consultest.Options{Token: secret}, server)
	other := processOn(t, consultest.Options{Token: secret}, server)
	ofFirst, ofOther := f.countAnswers(every, http.StatusForbidden), other.countAnswers(every, http.StatusForbidden)
	refused := func() int64 { return ofFirst.Load() + ofOther.Load() }
	leads, waits := f.Stand(elector.Config{Backend: f.Backend, Election: "/a/log"}), other.Stand(elector.Config{Backend: other.Backend, Election: "/a/log"})
	term := f.Campaign(leads)
	for rounds := 0; rounds < 10 && (rounds < 2 || refused() == 0); rounds++ {
		waiting := f.Campaigns(waits)
		wait.For(t, "two stand", func() bool {
			all, err := leads.Candidates(f.Ctx)
			return err == nil && len(all) == 2
		})
		require.NoError(t, server.Kill())
		require.NoError(t, server.Launch())
		if rounds%2 == 0 {
			require.NoError(t, term.Proclaim(f.Ctx, []byte("new")))
			require.True(t, term.Valid(), "%v", context.Cause(term.Context()))
		}
		require.NoError(t, term.Resign(f.Ctx))
		term, err = wait.Returned(f.T, waiting)
		require.NoError(t, err)
		all := must.Get(waits.Candidates(f.Ctx))(t)
		assert.Len(t, all, 1)
		leads, waits = waits, leads
	}
	require.NoError(t, term.Resign(f.Ctx))
	t.Log(refused(), "answers were refusals")
	assert.Positive(t, refused())
}

// A session that may not compare an entry does everything else: only a token that may write a key may
// compare that it has no entry.
func TestLookWithoutRights(t *testing.T) {
	t.Parallel()
	f := withRules(t, reads)
	f.S = f.open()
	key := newChild("/a")
	require.NoError(t, consultest.PutAll(f.Servers, key, []byte("0")))
	flag := must.Get(f.S.Get(f.Ctx, key))(t)
	f.handle(blocking, hang)
	states := f.recordStates()
	f.await(backend.Entry{Key: newChild("/a")})
	waiting := f.await(flag)
	require.NoError(t, consultest.PutAll(f.Servers, key, []byte("1")))
	began := time.Now()
	now := wait.Value(f.T, waiting)
	assert.Equal(t, "1", string(now[0].Value))
	assert.Less(t, time.Since(began), time.Minute, "then a query is given up")
	assert.Equal(t, []backend.State{backend.Live}, states())
}

func newChild(dir string) string { return dir + "/" + newName() }

// One list that leaves out what the token may read, as from a server that reads its log, and one empty
// reply, are asked for again.
func TestAnswersThatLeaveOut(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	first, own := f.Enqueue(f.another().S), f.Enqueue(f.S)
	filtered := false
	once := func(m match, text string) {
		f.first(1, m, func(*consultest.Request) (*http.Response, error) {
			lie := consultest.Answer(http.StatusOK, text)
			lie.Header.Set("X-Consul-Index", "5")
			if filtered {
				lie.Header.Set("X-Consul-LastContact", "0") // else the client library reads no further
				lie.Header.Set("X-Consul-Results-Filtered-By-Acls", "true")
			}
			return lie, nil
		})
	}
	once(asks("recurse"), "[]")
	for _, text := range []string{"null", "{}", `{"Results":[],"Errors":null}`, `{"Results":[{}]}`} {
		once(txns, text)
		f.Follows(f.S, own, first)
	}
	filtered = true
	once(asks("recurse"), "[]")
	l := must.Get(f.S.List(f.Ctx, f.Dir))(t)
	assert.Equal(t, []string{first.Key, own.Key}, l.Keys)

	o := f.another()
	w := must.Get(o.S.Will())(t)
	once(destroys, "true")
	once(informs, "[]")
	require.NoError(t, backend.Execute(f.Ctx, f.Backend, w))
	assert.False(t, exists(t, f.Servers, o.S.ID()), "nil, and the session is there")
}

// A commit that a proxy sends twice is done, is then refused, and is not done another time.
func TestDoneAndThenRefused(t *testing.T) {
	t.Parallel()
	refusals := map[string]consultest.Handler{
		"the token":  answer(http.StatusForbidden, "ACL not found"),
		"its rights": answer(http.StatusConflict, `{"Results":null,"Errors":[{"OpIndex":2,"What":"Permission denied: token lacks permission 'key:write'"}]}`),
	}
	for name, refusal := range refusals {
		for _, times := range []int64{1, 1000} { // for a moment, and for good
			t.Run(fmt.Sprintf("%s, %d times", name, times), func(t *testing.T) {
				t.Parallel()
				f := setUpBrief(t) // a refusal is ridden out for a third of its timeout
				_, remove := f.first(times, commits(backend.OpEnqueue), done(refusal))
				made, err := f.S.Commit(f.Ctx, nil, backend.Enqueue(f.Dir, []byte("x")))
				remove()
				want := []string(nil)
				if times == 1 {
					require.NoError(t, err)
					want = []string{made[0].Key}
				} else {
					require.ErrorIs(t, err, backend.ErrDenied)
				}
				wait.For(t, "what was told stands, and nothing else", func() bool {
					l := must.Get(f.S.List(f.Ctx, f.Dir))(t)
					return slices.Equal(l.Keys, want)
				})
			})
		}
	}
}

// Without rights on the tails nobody can enqueue, and the error says where they are missing.
func TestACLOfTails(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"deny", "read"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			f := withRules(t, enough+`key_prefix ".elector/tails/" { policy = "`+policy+`" }`)
			f.S = f.open()
			f.Enter(newChild("/a"))
			_, err := f.S.Commit(f.Ctx, nil, backend.Enqueue(f.Dir, nil))
			require.ErrorIs(t, err, backend.ErrDenied)
			require.ErrorContains(t, err, `".elector/tails`+f.Dir)
			l := must.Get(f.S.List(f.Ctx, f.Dir))(t)
			assert.Empty(t, l.Keys)
		})
	}
}

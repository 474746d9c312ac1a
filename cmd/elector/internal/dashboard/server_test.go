package dashboard

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/cmd/elector/internal/standtest"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/ranked"
)

// start serves a dashboard of the service.
func start(t *testing.T, url string, c Config) (s *server, address string) {
	t.Helper()
	b := must.Get(dial.Open(t.Context(), url))(t)
	in := must.Get(inspect.New(b, inspect.Options{}))(t)
	c.Service, c.Log = url, slog.New(slog.DiscardHandler)
	s = newServer(in, c)
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.board.run(t.Context())
	}()
	web := httptest.NewServer(s.handler())
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		<-over
		assert.NoError(t, in.Close(t.Context()))
		assert.NoError(t, b.Close())
	})
	return s, web.URL
}

// stands makes a candidate stand until the test ends.
func stands(t *testing.T, url, election, id, value string) (stop func()) {
	return standtest.Stand(t, url, election, id, value, fair.Strategy{})
}

// shows waits until the dashboard's state of an election is as wanted.
func shows(t *testing.T, s *server, path string, as func(e Election) bool) (e Election) {
	t.Helper()
	var state State
	defer func() {
		if t.Failed() {
			t.Logf("%+v", state)
		}
	}()
	wait.For(t, "it shows that of "+path, func() bool {
		state, _, _ = s.board.since(0)
		for _, e = range state.Elections {
			if e.Path == path && as(e) {
				return true
			}
		}
		return false
	})
	return e
}

func leads(id string) func(Election) bool {
	return func(e Election) bool { return e.Leader != nil && e.Leader.ID == id && e.Trouble == "" }
}

func TestOnServers(t *testing.T) {
	services.OnEach(t, func(t *testing.T, s services.Service) {
		if s.Name != services.Etcd.Name {
			servertest.Long(t, "several services")
		}
		follows(t, s.URL(s.ForTest(t).Addr(), time.Minute))
	})
}

// follows moves leadership, and checks that the dashboard shows it.
func follows(t *testing.T, url string) {
	stopFirst := stands(t, url, "/jobs/reindex", "host-1", "10.0.0.1")
	t.Cleanup(stands(t, url, "/jobs/reindex", "host-2", ""))
	s, address := start(t, url, Config{Path: "/jobs", Changes: true, By: "anna"})
	e := shows(t, s, "/jobs/reindex", func(e Election) bool { return leads("host-1")(e) && len(e.Candidates) == 2 })
	assert.Equal(t, "10.0.0.1", e.Value)
	assert.Equal(t, "host-2", e.Candidates[1].ID)

	code, said := post(t, address, s.token, order{Do: "transfer", Election: "/jobs/reindex", ID: "host-2", Why: "deploy", Token: e.Leader.Token})
	assert.Equal(t, http.StatusOK, code, said)
	second := shows(t, s, "/jobs/reindex", leads("host-2"))
	code, said = post(t, address, s.token, order{Do: "ask", Election: "/jobs/reindex", Token: e.Leader.Token})
	assert.Equal(t, http.StatusConflict, code, "the operator saw another leader")
	assert.Contains(t, said.Error, "the leader has changed")
	code, said = post(t, address, s.token, order{Do: "designate", Election: "/jobs/reindex", ID: "host-1", Token: second.Leader.Token})
	assert.Equal(t, http.StatusConflict, code, "fair heeds no designation: %s", said)

	stopFirst()
	e = shows(t, s, "/jobs/reindex", func(e Election) bool { return len(e.Candidates) == 1 })
	assert.Equal(t, second.Leader.From, e.Leader.From, "the term goes on")
	var led []string // around times without a leader, or in which the service has not answered
	for _, s := range e.Spans {
		if s.Kind == Led {
			led = append(led, s.ID)
		}
	}
	assert.Equal(t, []string{"host-1", "host-2"}, slices.Compact(led))
}

func TestDesignate(t *testing.T) {
	url := "mem://designate"
	t.Cleanup(standtest.Stand(t, url, "/jobs/ranked", "host-1", "", ranked.Strategy{}))
	t.Cleanup(standtest.Stand(t, url, "/jobs/ranked", "host-2", "", ranked.Strategy{}))
	s, address := start(t, url, Config{Path: "/", Changes: true})
	e := shows(t, s, "/jobs/ranked", func(e Election) bool { return e.Leader != nil && len(e.Candidates) == 2 })
	for _, c := range []struct{ do, designated string }{{"designate", "host-2"}, {"undesignate", ""}} {
		code, said := post(t, address, s.token, order{Do: c.do, Election: "/jobs/ranked", ID: "host-2", Token: e.Leader.Token})
		assert.Equal(t, http.StatusOK, code, said)
		e = shows(t, s, "/jobs/ranked", func(e Election) bool { return e.Designated == c.designated && e.Leader != nil })
	}
}

// post sends an order.
func post(t *testing.T, address, token string, o order) (code int, said done) {
	t.Helper()
	body := must.Get(json.Marshal(o))(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/act", strings.NewReader(string(body)))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	code, text := send(t, r)
	require.NoError(t, json.Unmarshal([]byte(text), &said), text)
	return code, said
}

func send(t *testing.T, r *http.Request) (code int, body string) {
	t.Helper()
	answer := must.Get(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, string(text)
}

// TestRefuses holds who may not change anything, and who may not even look.
func TestRefuses(t *testing.T) {
	url := "mem://refuses"
	t.Cleanup(stands(t, url, "/jobs/reindex", "host-1", ""))
	s, address := start(t, url, Config{Path: "/", Changes: true, Hosts: []string{"board.example"}})
	leader := shows(t, s, "/jobs/reindex", leads("host-1")).Leader
	reading, readOnly := start(t, url, Config{Path: "/"})
	assert.Empty(t, reading.token)
	body := `{"do":"ask","election":"/jobs/reindex","token":"` + leader.Token + `"}`
	permitted := map[string]string{"Authorization": "Bearer " + s.token, "Content-Type": "application/json"}
	for about, c := range map[string]struct {
		address, method, path, body string
		headers                     map[string]string
		code                        int
	}{
		"nothing may be changed": {readOnly, "POST", "/act", body, map[string]string{"Authorization": "Bearer "}, http.StatusForbidden},
		"no token":               {address, "POST", "/act", body, nil, http.StatusUnauthorized},
		"a wrong token":          {address, "POST", "/act", body, map[string]string{"Authorization": "Bearer " + s.token[1:]}, http.StatusUnauthorized},
		"a form of another page": {address, "POST", "/act", body, map[string]string{"Authorization": "Bearer " + s.token, "Content-Type": "text/plain"}, http.StatusUnsupportedMediaType},
		"a script of another page": {address, "POST", "/act", body, map[string]string{"Authorization": "Bearer " + s.token, "Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"},
			http.StatusForbidden},
		"no JSON":          {address, "POST", "/act", `{"do":`, permitted, http.StatusBadRequest},
		"too long":         {address, "POST", "/act", `{"why":"` + strings.Repeat("x", mostBody) + `"}`, permitted, http.StatusBadRequest},
		"no such election": {address, "POST", "/act", `{"do":"ask","election":"/x"}`, permitted, http.StatusNotFound},
		"no such order":    {address, "POST", "/act", strings.Replace(body, "ask", "rm", 1), permitted, http.StatusBadRequest},
		"an order by GET":  {address, "GET", "/act", "", map[string]string{"Authorization": "Bearer " + s.token}, http.StatusMethodNotAllowed},
		"a strange name":   {address, "GET", "/state", "", map[string]string{"Host": "evil.example"}, http.StatusMisdirectedRequest},
		"its name":         {address, "GET", "/state", "", map[string]string{"Host": "Board.example:80"}, http.StatusOK},
		"localhost":        {address, "GET", "/", "", map[string]string{"Host": "localhost:4041"}, http.StatusOK},
		"IPv6":             {address, "GET", "/page.js", "", map[string]string{"Host": "[::1]:4041"}, http.StatusOK},
		"another file":     {address, "GET", "/server.go", "", nil, http.StatusNotFound},
	} {
		r := must.Get(http.NewRequestWithContext(t.Context(), c.method, c.address+c.path, strings.NewReader(c.body)))(t)
		for name, value := range c.headers {
			r.Header.Set(name, value)
		}
		r.Host = c.headers["Host"]
		code, text := send(t, r)
		assert.Equal(t, c.code, code, "%s: %s", about, text)
		assert.NotContains(t, text, s.token, about)
	}
	e := shows(t, s, "/jobs/reindex", leads("host-1"))
	assert.Empty(t, e.Asked)
}

// TestEvents holds that a page receives all at first, then the changes; and that there is a limit of pages.
func TestEvents(t *testing.T) {
	url := "mem://events"
	t.Cleanup(stands(t, url, "/a", "host-1", ""))
	t.Cleanup(stands(t, url, "/b", "host-1", ""))
	s, address := start(t, url, Config{Path: "/"})
	shows(t, s, "/a", leads("host-1"))
	shows(t, s, "/b", leads("host-1"))
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/events", nil))(t)
	answer := must.Get(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	assert.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	lines := bufio.NewScanner(answer.Body)
	next := func() (state State) {
		for lines.Scan() {
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				require.NoError(t, json.Unmarshal([]byte(data), &state))
				return state
			}
		}
		t.Fatal("no more events")
		return
	}
	assert.Len(t, next().Elections, 2)
	t.Cleanup(stands(t, url, "/b", "host-2", ""))
	for state := next(); ; state = next() {
		assert.Equal(t, []string{"/a", "/b"}, state.Paths)
		if len(state.Elections) == 0 {
			continue // a sign of life
		}
		require.Len(t, state.Elections, 1)
		assert.Equal(t, "/b", state.Elections[0].Path)
		if len(state.Elections[0].Candidates) == 2 {
			break
		}
	}
	for len(s.pages) < mostPages {
		s.pages <- struct{}{}
	}
	r = must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/events", nil))(t)
	code, _ := send(t, r)
	assert.Equal(t, http.StatusServiceUnavailable, code)
}

// TestAnotherLeader holds that an order is refused if another leads than the page showed, even if the
// dashboard does not know it yet.
func TestAnotherLeader(t *testing.T) {
	url := "mem://another-leader"
	t.Cleanup(stands(t, url, "/jobs/reindex", "host-1", ""))
	s, address := start(t, url, Config{Path: "/other", Changes: true}) // so that nothing updates the board
	s.board.mu.Lock()
	s.board.all["/jobs/reindex"] = &followed{Election: Election{Path: "/jobs/reindex", Leader: &Span{Kind: Led, ID: "host-0", Token: "1"}}, stop: func() {}, watched: true}
	s.board.mu.Unlock()
	for _, do := range []string{"ask", "transfer", "designate"} {
		code, said := post(t, address, s.token, order{Do: do, Election: "/jobs/reindex", ID: "host-1", Token: "1"})
		assert.Equal(t, http.StatusConflict, code, said)
		assert.Contains(t, said.Error, "the leader has changed")
	}
	v := must.Get(s.in.Leader(t.Context(), "/jobs/reindex"))(t)
	assert.Nil(t, v.Leader.Asked)
}

// TestNobodyReads holds that a client that does not read is dropped, but not while an order is carried out.
func TestNobodyReads(t *testing.T) {
	web := newServer(nil, Config{Path: "/", Log: slog.New(slog.DiscardHandler)}).web(t.Context())
	assert.Greater(t, web.WriteTimeout, actBy)
}

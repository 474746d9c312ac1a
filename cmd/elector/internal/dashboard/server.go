package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/program"
)

// Config is what a dashboard shows, and to whom.
type Config struct {
	// Service is the page's name for the service. The page shows the elections at Path and below.
	Service, Path string
	// Listen is the address. Anybody who reaches it sees the page.
	Listen string
	// Hosts are the allowed host names in requests, besides localhost and any IP address. Others are refused,
	// so that no foreign page can make a browser ask for this one by a name of its own.
	Hosts []string
	// Changes lets anybody with the token that Serve logs ask leaders to go, and designate. The leaders' logs
	// name By.
	Changes bool
	By      string
	Log     *slog.Logger
}

//go:embed page.html page.css page.js
var files embed.FS

var page = template.Must(template.ParseFS(files, "page.html"))

const (
	mostPages = 100              // that are open
	alive     = 10 * time.Second // between two signs of life to a page: page.js waits for three
	actBy     = 30 * time.Second
	mostBody  = 10_000
)

type server struct {
	Config
	in    *inspect.Inspector
	board *Board
	token string // "": no changes allowed
	pages chan struct{}
}

// Serve serves the dashboard until ctx ends, and returns ctx's cause. It begins at once, even when the
// service is out of reach: the page says so. It does not close in.
func Serve(ctx context.Context, in *inspect.Inspector, c Config) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	s := newServer(in, c)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	following := make(chan struct{})
	go func() {
		defer close(following)
		s.board.run(ctx)
	}()
	web := s.web(ctx)
	go func() { cancel(web.Serve(l)) }() // Serve ends only with an error
	address := "http://" + l.Addr().String() + "/"
	if s.token != "" {
		address += "#" + s.token
	}
	c.Log.Info("the dashboard is at this address", "address", address)
	<-ctx.Done()
	_ = web.Close() // no request is worth waiting for
	<-following
	return context.Cause(ctx)
}

// web returns a server that drops clients that are slow to ask, or to read.
func (s *server) web(ctx context.Context) *http.Server {
	return &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: actBy + alive, IdleTimeout: time.Minute,
		MaxHeaderBytes: 1 << 14,
		ErrorLog:       slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
}

func newServer(in *inspect.Inspector, c Config) *server {
	s := &server{Config: c, in: in, board: newBoard(in, c.Path), pages: make(chan struct{}, mostPages)}
	if c.Changes {
		s.token = rand.Text()
	}
	return s
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	for _, name := range []string{"page.css", "page.js"} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, name) })
	}
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		state, _, _ := s.board.since(0)
		answer(w, http.StatusOK, state)
	})
	mux.HandleFunc("GET /events", s.events)
	mux.HandleFunc("POST /act", s.act)
	return s.guard(http.NewCrossOriginProtection().Handler(mux))
}

// guard refuses requests for a strange host name, and tells the browser to load and run nothing from
// elsewhere.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.named(r.Host) {
			http.Error(w, fmt.Sprintf("this dashboard is not known by the name %q: start it with --host, or ask for it by its IP address", r.Host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *server) named(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	_, err := netip.ParseAddr(name)
	return err == nil || name == "localhost" || slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

func (s *server) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := page.Execute(w, s.Config); err != nil {
		s.Log.Debug("a page was not written", "err", err)
	}
}

// events sends the state, and then each change, as server-sent events, until the page is closed.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	select {
	case s.pages <- struct{}{}:
		defer func() { <-s.pages }()
	default:
		http.Error(w, fmt.Sprintf("%d pages are open: close one", mostPages), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	if err := out.SetReadDeadline(time.Time{}); err != nil { // else it would end the request
		s.Log.Warn("no events can be sent", "err", err)
		return
	}
	for version := uint64(0); ; {
		state, now, changed := s.board.since(version)
		data, err := json.Marshal(state)
		if err == nil {
			err = out.SetWriteDeadline(time.Now().Add(alive)) // drops a client that does not read
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "data: %s\n\n", data)
		}
		if err = errors.Join(err, out.Flush()); err != nil {
			s.Log.Debug("a page is gone", "err", err)
			return
		}
		version = now
		select {
		case <-changed:
			_ = program.Sleep(r.Context(), 50*time.Millisecond) // simultaneous changes are sent together
		case <-time.After(alive):
		case <-r.Context().Done():
			return
		}
	}
}

// An order is an operator's command.
type order struct {
	Do       string `json:"do"` // ask, transfer, designate or undesignate
	Election string `json:"election"`
	ID       string `json:"id"`
	Why      string `json:"why"`
	// Token is the token of the leader that the operator saw, "" for none.
	Token string `json:"token"`
}

// done is the answer.
type done struct {
	Done  string `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
}

func (s *server) act(w http.ResponseWriter, r *http.Request) {
	code, said := s.obey(w, r)
	answer(w, code, said)
}

func (s *server) obey(w http.ResponseWriter, r *http.Request) (code int, said done) {
	given, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case s.token == "":
		return http.StatusForbidden, done{Error: "nothing may be changed here: start the dashboard with --allow-changes"}
	case !isBearer || subtle.ConstantTimeCompare([]byte(given), []byte(s.token)) != 1:
		return http.StatusUnauthorized, done{Error: "the token is not right: open the address that the dashboard has logged at its start"}
	case kind != "application/json":
		return http.StatusUnsupportedMediaType, done{Error: "send application/json"}
	}
	var o order
	in := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody))
	in.DisallowUnknownFields()
	if err := in.Decode(&o); err != nil {
		return http.StatusBadRequest, done{Error: err.Error()}
	}
	if !s.board.shows(o.Election) {
		return http.StatusNotFound, done{Error: "this election is not on the dashboard: " + o.Election}
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), actBy, fmt.Errorf("no answer from the service within %v: it may have been done", actBy))
	defer cancel()
	log := s.Log.With("do", o.Do, "election", o.Election, "id", o.ID, "why", o.Why, "from", r.RemoteAddr)
	says, err := s.carryOut(ctx, o)
	if err != nil {
		log.Warn("an order failed", "err", err)
		return codeOf(err), done{Error: err.Error()}
	}
	log.Info("an order was carried out")
	return http.StatusOK, done{Done: says}
}

var errChanged = errors.New("the leader has changed meanwhile: look again")

// carryOut asks the service who leads, as the board may not know yet.
func (s *server) carryOut(ctx context.Context, o order) (says string, err error) {
	v, err := s.in.Leader(ctx, o.Election)
	if err != nil {
		return "", err
	}
	if tokenOf(v.Leader) != o.Token {
		return "", errChanged
	}
	request := elector.Request{By: s.By, Why: o.Why}
	switch o.Do {
	case "ask":
		l, err := s.in.Ask(ctx, o.Election, request)
		return readable(l.ID) + " was asked to go", err
	case "transfer":
		l, err := s.in.Transfer(ctx, o.Election, o.ID, request)
		return readable(l.ID) + " was asked to have " + readable(o.ID) + " lead", err
	case "designate":
		return readable(o.ID) + " is designated", s.in.Designate(ctx, o.Election, inspect.Designation{ID: o.ID, By: s.By, Why: o.Why})
	case "undesignate":
		return "nobody is designated", s.in.Undesignate(ctx, o.Election)
	}
	return "", fmt.Errorf("do %q: give ask, transfer, designate or undesignate: %w", o.Do, elector.ErrConfig)
}

func codeOf(err error) int {
	switch {
	case errors.Is(err, elector.ErrConfig):
		return http.StatusBadRequest
	case errors.Is(err, errChanged), errors.Is(err, elector.ErrNoLeader), errors.Is(err, elector.ErrNoCandidate), errors.Is(err, elector.ErrNoElection),
		errors.Is(err, elector.ErrAsked), errors.Is(err, inspect.ErrUnknownStrategy), errors.Is(err, elector.ErrNoTransfer), errors.Is(err, elector.ErrNoDesignation):
		return http.StatusConflict
	}
	return http.StatusBadGateway
}

func answer(w http.ResponseWriter, code int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, string(data)+"\n") // a page that is gone needs no answer
}

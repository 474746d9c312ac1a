package health

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/elector-go/elector"
)

// Follow observes the election until e is closed or ctx ends, so that e.Status, and each answer here, has
// the current leader: without it, a candidate knows only the candidate before it. It blocks, for at most
// two seconds after e is closed, and needs the same rights as Elector.Observe. If it is refused, it tries
// again after a second at first, and after a minute at most; Status has the error.
func Follow(ctx context.Context, e elector.Elector) {
	const first, longest = time.Second, time.Minute
	for pause := first; ; pause = min(2*pause, longest) {
		told, closed := observe(ctx, e)
		if told {
			pause = first
		}
		for end := time.Now().Add(pause); time.Now().Before(end); {
			if closed || e.Status().Role == elector.RoleClosed {
				return
			}
			select {
			case <-time.After(first):
			case <-ctx.Done():
				return
			}
		}
	}
}

// observe reports whether a leader was yielded, and whether e is closed. It observes on a goroutine of its
// own, because a hook of e may end the goroutine.
func observe(ctx context.Context, e elector.Elector) (told, closed bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, err := range e.Observe(ctx) {
			told, closed = told || err == nil, errors.Is(err, elector.ErrClosed)
		}
	}()
	<-ended
	return told, closed
}

// Redirect calls next while this process leads. Otherwise it sends the client to the leader, with the
// requested path and query. The status is 307, which keeps the method and the body. The leader's Value
// (elector.Config.Value, Term.Proclaim) must be a URL such as http://10.0.0.7:8080.
//
// It follows the election, with [Follow], from the call of Redirect until e is closed.
//
// The header Age says how many seconds ago that leader was last known to lead. It grows while the service
// is down: for DefaultBound, the last known leader is still used, because it may be reachable although the
// service is not. After that, or if no leader is known, or if its Value is no such URL, the answer is 503
// with Retry-After, and an Answer with the reason. Two processes with old knowledge may send a client to
// each other: clients give up after about ten redirects, as net/http does.
//
// Anybody who can write candidates in the service decides where clients are sent.
func Redirect(e elector.Elector, next http.Handler) http.Handler {
	go Follow(context.Background(), e)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, now := e.Status(), time.Now()
		if s.IsLeader() {
			next.ServeHTTP(w, r)
			return
		}
		age, known := leaderAge(s, now)
		why := "no leader is known"
		switch {
		case known && age > DefaultBound:
			why = fmt.Sprintf("the last leader known was last known to lead %v ago", age.Round(time.Second))
		case known:
			var to string
			if to, why = target(s.Leader.Value, r.URL); why == "" {
				setAge(w.Header(), age)
				w.Header().Set("Cache-Control", "no-store")
				http.Redirect(w, r, to, http.StatusTemporaryRedirect)
				return
			}
		}
		w.Header().Set("Retry-After", "1")
		answer(w, s, now, why)
	})
}

// target returns where the leader answers a request, or why that is unknown.
func target(value []byte, asked *url.URL) (to, why string) {
	at, err := url.Parse(string(value))
	switch {
	case err != nil:
		return "", "the leader's value is no URL"
	case at.Scheme != "http" && at.Scheme != "https", at.Hostname() == "":
		return "", "the leader's value is no URL of http or https with a host"
	case at.User != nil, at.RawQuery != "", at.Fragment != "":
		return "", "the leader's value has more than scheme, host and path"
	}
	base := url.URL{
		Scheme: at.Scheme, Host: at.Host, RawQuery: asked.RawQuery,
		Path:    strings.TrimSuffix(at.Path, "/") + asked.Path,
		RawPath: strings.TrimSuffix(at.EscapedPath(), "/") + asked.EscapedPath(), // as requested: %2F is no slash
	}
	return base.String(), ""
}

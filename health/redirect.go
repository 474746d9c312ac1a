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

// Follow observes the election until e is closed or ctx ends, so that what e.Status, and each answer here,
// tells of the leader is current: a candidate by itself knows the one before it, and not who has led since.
// It blocks, for two seconds at most after e is closed, and needs no rights that Elector.Observe does not need. Where
// it is refused, it tries again after a second, and after a minute at most; Status has the error.
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

// observe tells whether the leader was told, and whether e is closed. It has a goroutine of its own, which a hook
// of e may end.
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

// Redirect has next answer while this process leads. Otherwise it sends the client to the leader, with
// the path and the query that it asked for: status 307, so that the method and the body stay. The leader's
// Value (elector.Config.Value, Term.Proclaim) has to be a URL such as http://10.0.0.7:8080.
//
// It follows the election, by [Follow], from the call of Redirect until e is closed.
//
// The header Age says how many seconds ago that leader was last known to lead. It grows while the
// service is away: for DefaultBound the last leader known is still told, as it may be reached though the
// service is not. If none is known, or for longer, or if its Value is no such URL, the answer is 503 with
// Retry-After, and an Answer that says why. Two processes whose knowledge is old may send a client to
// each other: clients give up after some ten redirects, as net/http does.
//
// Those who can write candidates in the service decide where clients are sent.
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

// target is where the leader answers a request, or why that is not known.
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
		RawPath: strings.TrimSuffix(at.EscapedPath(), "/") + asked.EscapedPath(), // as it was asked for: %2F is no slash
	}
	return base.String(), ""
}

package health

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/elector-go/elector"
)

// Redirect has next answer while this process leads. Otherwise it sends the client to the leader, with
// the path and the query that it asked for: status 307, so that the method and the body stay. The leader's
// Value (elector.Config.Value, Term.Proclaim) has to be a URL such as http://10.0.0.7:8080.
//
// The header Age says how many seconds ago that leader was last known to lead. It grows while the
// service is away, and the last leader known is still told: it may be reached though the service is not.
// If none is known, or its Value is no such URL, the answer is 503 with Retry-After, and an Answer that
// says why. Two processes whose knowledge is old may send a client to each other: clients give up
// after some ten redirects, as net/http does.
//
// Whoever can write candidates in the service decides where clients are sent.
func Redirect(e elector.Elector, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, now := e.Status(), time.Now()
		if s.IsLeader() {
			next.ServeHTTP(w, r)
			return
		}
		age, known := leaderAge(s, now)
		why := "no leader is known"
		if known {
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

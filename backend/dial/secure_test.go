package dial_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/internal/certtest"
	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// secret must not appear in any message.
const secret = "S3cr3t"

// listen returns a logger at debug level for everything in the test, and checks that no secret is logged.
func listen(t *testing.T) (*wait.Log, *slog.Logger) {
	s := new(wait.Log)
	t.Cleanup(func() { assert.NotContains(t, s.String(), secret) })
	return s, slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// port returns a free port for a server.
func port(t *testing.T) int {
	t.Helper()
	ports := must.Get(loopback.Ports(1))(t)
	t.Cleanup(func() { loopback.Release(ports...) })
	return ports[0]
}

// authority makes a certificate authority.
func authority(t *testing.T) *certtest.Authority {
	t.Helper()
	return must.Get(certtest.New())(t)
}

// setenv sets variables, given in pairs, for the test.
func setenv(t *testing.T, pairs ...string) {
	t.Helper()
	for pair := range slices.Chunk(pairs, 2) {
		t.Setenv(pair[0], pair[1])
	}
}

// file writes a file of the test.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// secured opens a URL with the environment as it is.
func secured(t *testing.T, url string) (*dial.Backend, *wait.Log) {
	t.Helper()
	s, log := listen(t)
	b := open(t, url, dial.WithLogger(log))
	fmt.Fprintf(s, "%v %+v %#v", b, b, b)
	return b, s
}

// lead wins an election with the environment as it is.
func lead(t *testing.T, url, election string) (*elector.Term, *wait.Log) {
	t.Helper()
	b, s := secured(t, url)
	e := stand(t, b, election, elector.Hooks{})
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	term := must.Get(e.Campaign(ctx))(t)
	return term, s
}

func stand(t *testing.T, b backend.Backend, election string, hooks elector.Hooks) elector.Elector {
	t.Helper()
	e := must.Get(elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: election, ID: "me", Hooks: hooks}))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = e.Close(ctx) // the credentials may have lost the right to confirm
	})
	return e
}

// refusal returns the error of a session that cannot be opened, and how long it took.
func refusal(t *testing.T, url string) (time.Duration, error) {
	t.Helper()
	b, s := secured(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	began := time.Now()
	opened, err := b.Open(ctx, backend.OpenOptions{})
	if !assert.Error(t, err) {
		_ = opened.Close(ctx)
		t.FailNow()
	}
	fmt.Fprintln(s, err)
	return time.Since(began), err
}

// at returns the address of a port of this machine.
func at(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// fails checks that a session cannot be opened with these variables, and that the error says why. What the
// client itself finds out about the server is reported before the session timeout is over.
func fails(t *testing.T, url, says string, variables ...string) {
	t.Helper()
	t.Run(says, func(t *testing.T) {
		setenv(t, variables...)
		took, err := refusal(t, url)
		for range 10 { // a reset may overtake the server's reason
			if strings.Contains(err.Error(), says) {
				break
			}
			took, err = refusal(t, url)
		}
		assert.ErrorContains(t, err, says)
		assert.NotContains(t, err.Error(), "context deadline exceeded")
		if strings.HasPrefix(says, "x509") {
			assert.Less(t, took, 30*time.Second)
		}
	})
}

// certificates checks what a server with certificates accepts and refuses. If asks is true it asks clients
// for theirs. ca, cert and key are the variables of ann's files, with which term leads.
func certificates(t *testing.T, ca, cert, key string, start func(server certtest.Files, asks bool) (url string)) (url string, term *elector.Term) {
	t.Helper()
	own := authority(t)
	ann, stranger := own.ForTest(t, "ann"), authority(t).ForTest(t, "ann")
	expired, elsewhere := own.ForTest(t, "server", certtest.Expired), own.ForTest(t, "server", certtest.Elsewhere)
	url = start(own.ForTest(t, "server"), true)
	setenv(t, ca, ann.CA, cert, ann.Cert, key, ann.Key)
	term, _ = lead(t, url, "/jobs/one")
	assert.NoError(t, must.Err(term.Commit(t.Context(), elector.Put("/jobs/state", nil))))

	fails(t, url, "remote error: tls: ", cert, "", key, "")
	fails(t, url, "remote error: tls: ", cert, stranger.Cert, key, stranger.Key)
	fails(t, url, "x509: certificate signed by unknown authority", ca, stranger.CA)
	renewed(t, url, ca, cert, key, stranger, ann)
	t.Run("of the wrong servers", func(t *testing.T) {
		servertest.Long(t, "two more servers")
		fails(t, start(expired, false), "x509: certificate has expired")
		fails(t, start(elsewhere, false), "x509: cannot validate certificate for 127.0.0.1")
	})
	return url, term
}

// renewed checks that overwritten files count from the next connection on: the authority, and the certificate
// and its key. The variables hold the paths.
func renewed(t *testing.T, url, ca, certificate, key string, before, after certtest.Files) {
	t.Helper()
	copied := func(from, to string) { require.NoError(t, os.WriteFile(to, must.Get(os.ReadFile(from))(t), 0o600)) }
	authorities, cert, own := file(t, ""), file(t, ""), file(t, "")
	copied(before.CA, authorities)
	copied(before.Cert, cert)
	copied(before.Key, own)
	setenv(t, ca, authorities, certificate, cert, key, own)
	b, _ := secured(t, url)
	refused := func() error { return must.Err(b.Open(t.Context(), backend.OpenOptions{})) }
	require.ErrorIs(t, refused(), backend.ErrUnavailable)
	copied(after.CA, authorities)
	require.ErrorIs(t, refused(), backend.ErrUnavailable)
	copied(after.Cert, cert)
	copied(after.Key, own)
	var s *backend.Session
	require.Eventually(t, func() bool {
		var err error
		s, err = b.Open(t.Context(), backend.OpenOptions{})
		return err == nil
	}, wait.Patience, 100*time.Millisecond)
	assert.NoError(t, s.Close(t.Context()))
}

package dialkubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	_ "github.com/elector-go/elector/backend/kubernetes/dialkubernetes"
	"github.com/elector-go/elector/internal/must"
)

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: s, cluster: {server: "https://api.invalid:6443"}}]
users: [{name: u, user: {token: s3cr3t}}]
contexts: [{name: c, context: {cluster: s, user: u, namespace: shop}}]
`

func TestRefused(t *testing.T) {
	t.Setenv("KUBECONFIG", write(t, kubeconfig))
	for url, says := range map[string]string{
		"k8s://shop":                   "the Lease is missing",
		"k8s://shop/a/b":               `the name of the Lease, "a/b"`,
		"k8s://shop/Worker":            `the name of the Lease, "Worker"`,
		"k8s://shop/worker?tls=true":   `unknown parameter "tls"`,
		"k8s://shop/worker?timeout=1s": "SessionTimeout of 1s",
		"k8s://me:pw@shop/worker":      "set KUBECONFIG",
	} {
		_, err := dial.Open(t.Context(), url)
		require.ErrorContains(t, err, says, url)
	}
	t.Setenv("KUBECONFIG", write(t, "no kubeconfig"))
	require.ErrorContains(t, must.Err(dial.Open(t.Context(), "k8s://shop/worker")), "set KUBECONFIG")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing"))
	require.ErrorContains(t, must.Err(dial.Open(t.Context(), "k8s://shop/worker")), "set KUBECONFIG")
}

func write(t *testing.T, text string) string {
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// The options arrive, and the server is that of kubectl's context.
func TestOpen(t *testing.T) {
	t.Setenv("KUBECONFIG", write(t, kubeconfig))
	var asked string
	dialer := func(_ context.Context, network, address string) (net.Conn, error) {
		asked = fmt.Sprint(network, " ", address)
		return nil, errors.New("no route")
	}
	b := must.Get(dial.Open(t.Context(), "k8s:///worker?timeout=20s", dial.WithDialContext(dialer)))(t)
	assert.Equal(t, "20s", b.Limits().DefaultTTL.String())
	_, err := b.Open(t.Context(), backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorContains(t, err, "no route")
	assert.NotContains(t, err.Error(), "s3cr3t")
	assert.Equal(t, "tcp api.invalid:6443", asked)
	require.NoError(t, b.Close())
}

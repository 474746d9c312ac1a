package kubernetes

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// namespaceFile is where Kubernetes tells a pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// InCluster returns a Config for a Lease in the namespace of this process's pod, with the pod's service account.
func InCluster(name string) (Config, error) {
	config, namespace, err := inPod()
	if err != nil {
		return Config{}, err
	}
	return Connect(config, namespace, name)
}

// inPod returns how this process's pod reaches the API server, and its namespace.
func inPod() (config *rest.Config, namespace string, err error) {
	if config, err = rest.InClusterConfig(); err != nil {
		return nil, "", fmt.Errorf("kubernetes: %w", err)
	}
	text, err := os.ReadFile(namespaceFile)
	if err != nil {
		return nil, "", fmt.Errorf("kubernetes: this pod's namespace: %w", err)
	}
	return config, strings.TrimSpace(string(text)), nil
}

// Connect returns a Config for a Lease in a namespace. Its client has connections of its own and no limit on its
// requests, except those that config sets. A connection on which nothing is answered is closed, unless config brings its
// own Transport.
func Connect(config *rest.Config, namespace, name string) (Config, error) {
	switch {
	case config == nil:
		return Config{}, errors.New("kubernetes: the rest.Config is nil")
	case namespace == "":
		return Config{}, fmt.Errorf("kubernetes: the namespace of Lease %s is empty", name)
	}
	config, disconnect := suited(config)
	c, err := client.NewForConfig(config)
	if err != nil {
		return Config{}, fmt.Errorf("kubernetes: %w", err)
	}
	return Config{Leases: c.Leases(namespace), Name: name, disconnect: disconnect}, nil
}

// suited returns a config whose client has connections of its own, and closes them by disconnect.
func suited(config *rest.Config) (_ *rest.Config, disconnect func()) {
	config = rest.CopyConfig(config)
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: patience}).DialContext
	}
	dialer := connrotation.NewDialer(dial)
	config.Dial = dialer.DialContext
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS = -1
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return once{next} })
	return config, dialer.CloseAll
}

// once keeps client-go from sending a request again by itself. After a server error a write may have been done, and the
// second would be refused. And a session has no time for the wait that an API server asks for, which may be half a minute.
type once struct{ http.RoundTripper }

func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := o.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Header.Del("Retry-After")
	}
	return answer, err
}

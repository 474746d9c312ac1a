// Package dialkubernetes brings the scheme k8s:// to package dial. A program imports it for that alone:
//
//	import _ "github.com/elector-go/elector/backend/kubernetes/dialkubernetes"
//
// A URL names a Lease. All candidates of an election must use the same one:
//
//	k8s://namespace/lease?timeout=15s
//	k8s:///lease                        in the namespace of the pod, or of kubectl's context
//
// The API server and the credentials are kubectl's: those of the files that KUBECONFIG names, or of
// ~/.kube/config, and in a pod without these the pod's service account. The only parameter is timeout, as package dial
// has it.
package dialkubernetes

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/kubernetes"
)

func init() {
	dial.Register(dial.Scheme{
		Name: "k8s", Usage: "k8s://namespace/lease", Params: []string{"timeout"},
		Secret: "set KUBECONFIG to a file that has them", Open: open,
	})
}

func open(t *dial.Target) (backend.Backend, func() error, error) {
	lease := strings.TrimPrefix(t.Path, "/")
	if lease == "" {
		return nil, nil, errors.New("the Lease is missing: give k8s://namespace/lease")
	}
	kubectl := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{})
	config, err := kubectl.ClientConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("how to reach the API server: %w: set KUBECONFIG, or run in a pod with a service account", err)
	}
	namespace := t.Name
	if namespace == "" {
		if namespace, _, err = kubectl.Namespace(); err != nil {
			return nil, nil, fmt.Errorf("the namespace: %w", err)
		}
	}
	if t.DialContext != nil {
		config.Dial = t.DialContext
	}
	c, err := kubernetes.Connect(config, namespace, lease)
	if err != nil {
		return nil, nil, err
	}
	c.SessionTimeout, c.Logger = t.Timeout, t.Logger
	b, err := kubernetes.New(c)
	return b, func() error { c.Close(); return nil }, err
}

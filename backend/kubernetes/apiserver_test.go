//go:build unix

package kubernetes_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordination "k8s.io/api/coordination/v1"
	rbac "k8s.io/api/rbac/v1"
	meta1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/kubernetes"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// A real API server.
func TestAPIServer(t *testing.T) {
	api := servertest.KubeAPIForTest(t, servertest.KubeAPIConfig{NoSync: true})
	as := func(token string) *rest.Config {
		return &rest.Config{Host: api.URL(), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAFile: api.CAFile}}
	}
	var leases atomic.Int32
	service := func(t testing.TB) *conformance.Service {
		name := fmt.Sprintf("lease-%d", leases.Add(1))
		return serviceOn(name, func(t testing.TB) (client.LeaseInterface, func()) {
			cfg := must.Get(kubernetes.Connect(as(api.Admin), "default", name))(t)
			return cfg.Leases, cfg.Close
		})
	}
	t.Run("rights", func(t *testing.T) { checkRights(t, as(api.Admin), as(api.User)) })
	t.Run("backend", func(t *testing.T) { conformance.TestBackendParallel(t, service) })
	t.Run("election", func(t *testing.T) {
		conformance.TestElection(t, conformance.ElectionConfig{Service: service, Strategy: fair.Strategy{}, Traits: conformance.Traits{Ordered: true, StepsAside: true, Lists: true}})
	})
}

// checkRights tries the rights that the package comment lists, on the Lease of a manifest: with one that is missing
// the error names its verb.
func checkRights(t *testing.T, admin, user *rest.Config) {
	made := must.Get(kubernetes.Connect(admin, "default", "worker"))(t)
	defer made.Close()
	roles := must.Get(rbacclient.NewForConfig(admin))(t)
	named := meta1.ObjectMeta{Name: "worker"}
	must.Get(made.Leases.Create(t.Context(), &coordination.Lease{ObjectMeta: named}, meta1.CreateOptions{}))(t)
	role := must.Get(roles.Roles("default").Create(t.Context(), &rbac.Role{ObjectMeta: named}, meta1.CreateOptions{}))(t)
	must.Get(roles.RoleBindings("default").Create(t.Context(), &rbac.RoleBinding{
		ObjectMeta: named, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: servertest.KubeUser}},
	}, meta1.CreateOptions{}))(t)
	open := func(name string) (*backend.Session, error) {
		cfg := must.Get(kubernetes.Connect(user, "default", name))(t)
		t.Cleanup(cfg.Close)
		return must.Get(kubernetes.New(cfg))(t).Open(t.Context(), backend.OpenOptions{TTL: time.Minute})
	}
	var verbs []string
	for _, verb := range []string{"get", "patch", "watch"} {
		if verb != "watch" { // it works by reading without
			wait.For(t, verb+" is refused", func() bool {
				_, err := open("worker")
				require.ErrorIs(t, err, backend.ErrDenied)
				return strings.Contains(err.Error(), "cannot "+verb+" resource")
			})
		}
		verbs = append(verbs, verb)
		role.Rules = []rbac.PolicyRule{{APIGroups: []string{coordination.GroupName}, Resources: []string{"leases"}, ResourceNames: []string{"worker"}, Verbs: verbs}}
		role = must.Get(roles.Roles("default").Update(t.Context(), role, meta1.UpdateOptions{}))(t)
	}
	var session *backend.Session
	wait.For(t, "the rights suffice", func() (ok bool) {
		var err error
		session, err = open("worker")
		return err == nil
	})
	require.NoError(t, session.Close(t.Context()))
	require.ErrorContains(t, must.Err(open("other")), `leases.coordination.k8s.io "other" is forbidden`)
}

//go:build unix

package servertest

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/wait"
)

const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

type lease struct {
	Metadata struct {
		Name            string
		ResourceVersion string
	}
	Spec struct{ HolderIdentity string }
}

// leaseText returns a Lease as JSON; version "" is of one that is not there yet.
func leaseText(name, version, holder string) string {
	return `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":` + strconv.Quote(name) +
		`,"resourceVersion":` + strconv.Quote(version) + `},"spec":{"holderIdentity":` + strconv.Quote(holder) + `}}`
}

func (k *KubeAPI) put(key string) error {
	return k.ask(wait.Patience, k.Admin, http.MethodPost, leases, leaseText(key, "", "ann"), nil)
}

func (k *KubeAPI) has(key string) (bool, error) {
	var list struct{ Items []lease }
	err := k.ask(wait.Patience, k.Admin, http.MethodGet, leases+"?fieldSelector=metadata.name%3D"+key, "", &list)
	return len(list.Items) == 1, err
}

// leads is for kv: a server that is alone leads nobody.
func (k *KubeAPI) leads() (uint64, error) { return 0, nil }

func TestKubeAPI(t *testing.T) {
	k := KubeAPIForTest(t, KubeAPIConfig{NoSync: true})
	// do sends a request as a user, and returns the Lease in the answer.
	do := func(token, method, path, body string) (l lease, err error) {
		err = k.ask(wait.Patience, token, method, path, body, &l)
		return l, err
	}
	const one = leases + "/shop"
	made, err := do(k.Admin, http.MethodPost, leases, leaseText("shop", "", "ann"))
	require.NoError(t, err)

	watch, err := http.NewRequest(http.MethodGet, k.URL()+leases+"?watch=1&fieldSelector=metadata.name%3Dshop&resourceVersion="+made.Metadata.ResourceVersion, nil)
	require.NoError(t, err)
	watch.Header.Set("Authorization", "Bearer "+k.Admin)
	response, err := k.client.Do(watch)
	require.NoError(t, err)
	defer response.Body.Close()

	changed, err := do(k.Admin, http.MethodPut, one, leaseText("shop", made.Metadata.ResourceVersion, "bob"))
	require.NoError(t, err)
	assert.NotEqual(t, made.Metadata.ResourceVersion, changed.Metadata.ResourceVersion)
	_, err = do(k.Admin, http.MethodPut, one, leaseText("shop", made.Metadata.ResourceVersion, "joe"))
	require.ErrorContains(t, err, "409 Conflict", "a version that is not the newest")
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	require.NoError(t, err)
	var event struct {
		Type   string
		Object lease
	}
	require.NoError(t, json.Unmarshal([]byte(line), &event))
	assert.Equal(t, "MODIFIED", event.Type)
	assert.Equal(t, changed, event.Object)

	_, err = do("nobody's", http.MethodGet, one, "")
	require.ErrorContains(t, err, "401 Unauthorized")
	_, err = do(k.User, http.MethodGet, one, "")
	require.ErrorContains(t, err, "403 Forbidden")
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	require.NoError(t, k.ask(wait.Patience, k.Admin, http.MethodPost, rbac+"roles", `{"metadata":{"name":"reader"},
		"rules":[{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"resourceNames":["shop"],"verbs":["get"]}]}`, nil))
	require.NoError(t, k.ask(wait.Patience, k.Admin, http.MethodPost, rbac+"rolebindings", `{"metadata":{"name":"reader"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"reader"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"`+KubeUser+`"}]}`, nil))
	wait.For(t, "the Role permits the user to get", func() bool {
		got, err := do(k.User, http.MethodGet, one, "")
		return err == nil && got == changed
	})
	_, err = do(k.User, http.MethodPut, one, leaseText("shop", changed.Metadata.ResourceVersion, "joe"))
	require.ErrorContains(t, err, "403 Forbidden")
	_, err = do(k.User, http.MethodGet, leases+"/other", "")
	require.ErrorContains(t, err, "403 Forbidden")

	// The server makes a token for a service account.
	const accounts = "/api/v1/namespaces/default/serviceaccounts"
	_, err = do(k.Admin, http.MethodPost, accounts, `{"metadata":{"name":"pod"}}`)
	require.NoError(t, err)
	var request struct{ Status struct{ Token string } }
	require.NoError(t, k.ask(wait.Patience, k.Admin, http.MethodPost, accounts+"/pod/token", `{}`, &request))
	_, err = do(request.Status.Token, http.MethodGet, one, "")
	require.ErrorContains(t, err, `serviceaccount:default:pod`, "what is refused to it")

	require.NoError(t, k.Restart())
	_, err = do(request.Status.Token, http.MethodGet, one, "")
	require.ErrorContains(t, err, "403 Forbidden", "its token outlives the server's process")
	got, err := do(k.User, http.MethodGet, one, "")
	require.NoError(t, err)
	assert.Equal(t, changed, got)

	_, err = StartKubeAPI(KubeAPIConfig{NoSync: true, Args: []string{"--no-such-flag"}})
	require.ErrorIs(t, err, process.ErrNotRunning)
	require.ErrorContains(t, err, "unknown flag: --no-such-flag")
}

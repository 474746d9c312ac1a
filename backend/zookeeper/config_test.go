package zookeeper

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
)

// New reports all errors at once, each with field, value and rule.
func TestConfigFaults(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, `Config.Servers is empty: give at least one "host:port"`)

	_, err = New(Config{
		Servers:        []string{"a:1", "nohost", ":2181", "h:0", "h:http", "a:1"},
		SessionTimeout: time.Millisecond,
		Margin:         time.Second,
		ConnectTimeout: -1,
		Chroot:         "relative",
		Auth:           []Auth{{}},
		ACL:            []zk.ACL{{Perms: 64, Scheme: "world", ID: "anyone"}},
		MaxRequest:     1,
		MaxResponse:    -1,
	})
	for _, want := range []string{
		`Servers[1] is "nohost": must be "host:port"`,
		`Servers[2] is ":2181": the host is missing`,
		`Servers[3] is "h:0": the port`,
		`Servers[4] is "h:http": the port`,
		`Servers[5] is "a:1": is given twice`,
		`SessionTimeout is 1ms: must be between 100ms and 24h0m0s`,
		`Margin is 1s: must be at most a quarter of SessionTimeout (1ms) with HeartbeatLeader`,
		`ConnectTimeout is -1ns: must not be negative`,
		`Chroot is "relative": must be an absolute path`,
		`Auth[0].Scheme is empty`,
		`ACL[0] is`,
		`MaxRequest is 1: must be at least 16384 bytes`,
		`MaxResponse is -1: must be at least 16384 bytes`,
	} {
		assert.ErrorContains(t, err, "zookeeper: Config."+want)
	}

	_, err = New(Config{Servers: []string{"a:1"}, Heartbeat: HeartbeatPing, SessionTimeout: 10 * time.Second, Margin: 6 * time.Second})
	require.ErrorContains(t, err, "Config.Margin is 6s: must be at most a quarter of SessionTimeout (10s) with HeartbeatLeader, and half of it with HeartbeatPing")
}

func TestConfigDefaults(t *testing.T) {
	b := must.Get(New(Config{Servers: []string{"[::1]:2181"}}))(t)
	assert.Equal(t, DefaultSessionTimeout, b.Limits().DefaultTTL)
	assert.Equal(t, zk.WorldACL(zk.PermAll), b.cfg.ACL)
	assert.Equal(t, "zookeeper", b.String())

	b = must.Get(New(Config{Servers: []string{"h:1"}, Auth: []Auth{Digest("u", "p")}}))(t)
	assert.Equal(t, zk.AuthACL(zk.PermAll), b.cfg.ACL)
	assert.Equal(t, "u:p", string(b.cfg.Auth[0].Credentials))
}

// The size that is checked before sending is the size that is sent.
func TestMultiSize(t *testing.T) {
	m := newMulti()
	for _, request := range []any{
		&zk.CreateRequest{Path: "/a/b", Data: []byte("xyz"), Acl: zk.WorldACL(zk.PermAll), Flags: 3},
		&zk.SetDataRequest{Path: "/a", Data: []byte{}, Version: -1},
		&zk.DeleteRequest{Path: "/a/c", Version: 2},
		&zk.CheckVersionRequest{Path: "/", Version: 1},
	} {
		m.write(request, ref{})
	}
	// header 8, end 9, and for each op 9 and its fields
	create := 9 + 4 + 4 + 4 + 3 + 4 + (4 + 4 + 5 + 4 + 6) + 4
	set := 9 + 4 + 2 + 4 + 0 + 4
	del := 9 + 4 + 4 + 4
	check := 9 + 4 + 1 + 4
	assert.Equal(t, 8+9+create+set+del+check, m.size())
}

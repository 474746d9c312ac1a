package nats_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/process"
)

// serveVariable makes the test binary a server, which can be killed and frozen: it names its configuration.
const serveVariable = "ELECTOR_TEST_NATS_SERVER"

func TestMain(m *testing.M) {
	if file := os.Getenv(serveVariable); file != "" {
		serve(file)
	}
	os.Exit(m.Run())
}

// serve is a server until it is killed.
func serve(file string) {
	o, err := server.ProcessConfigFile(file)
	if err == nil {
		o.NoSigs = true
		var s *server.Server
		if s, err = server.NewServer(o); err == nil {
			s.ConfigureLogger()
			s.Start()
			select {}
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

// A member is a server in a process of its own.
type member struct {
	*process.Process
	addr string // for clients
}

// members makes n servers of one cluster; a single one is in none. They are killed when the test ends.
func members(t *testing.T, n int) []*member {
	t.Helper()
	ports := must.Get(loopback.Ports(2 * n))(t)
	t.Cleanup(func() { loopback.Release(ports...) })
	var routes []string
	for i := range n {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[n+i]))
	}
	var all []*member
	for i := range n {
		name, dir := fmt.Sprintf("server-%d", i), t.TempDir()
		text := fmt.Sprintf("server_name: %s\nlisten: 127.0.0.1:%d\njetstream { store_dir: %q, sync_interval: always }\n", name, ports[i], dir)
		if n > 1 {
			text += fmt.Sprintf("cluster { name: c, listen: 127.0.0.1:%d, routes: [%s] }\n", ports[n+i], strings.Join(routes, ", "))
		}
		file := filepath.Join(dir, "conf")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		m := &member{addr: fmt.Sprintf("127.0.0.1:%d", ports[i]), Process: process.New(process.Spec{
			Name: name, Path: must.Get(os.Executable())(t), Env: []string{serveVariable + "=" + file}, LogPath: filepath.Join(dir, "log"),
		})}
		t.Cleanup(func() { _ = m.Kill() })
		require.NoError(t, m.begin())
		all = append(all, m)
	}
	return all
}

// begin starts a member, and returns when it answers.
func (m *member) begin() error {
	if err := m.Start(); err != nil {
		return err
	}
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var conn net.Conn
		if conn, err = net.Dial("tcp", m.addr); err == nil {
			return conn.Close()
		}
	}
	return err
}

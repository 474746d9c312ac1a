package servertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/internal/networktest"
)

// DigestJAAS returns the JAAS file of servers that know one user for DIGEST-MD5.
func DigestJAAS(user, password string) string {
	return fmt.Sprintf("Server {\n\torg.apache.zookeeper.server.auth.DigestLoginModule required\n\tuser_%s=%q;\n};\n", user, password)
}

// ZooKeeperConfig configures one server or every server of an ensemble. The zero value is ready to use.
type ZooKeeperConfig struct {
	// TickTime is the server's time unit, 200 ms by default. Session timeouts
	// are rounded up to ticks and are at least two ticks long.
	TickTime time.Duration

	// MaxSessionTimeout limits the session timeouts of clients, 60 s by default.
	MaxSessionTimeout time.Duration

	// Stock keeps the settings of an installed server, except folders, addresses, ports and four-letter
	// words; internal/servertest/DESIGN.md compares both. Of the other fields, only Extra and SystemProperties
	// then change a setting.
	Stock bool

	// Dir is an existing folder in which the server makes a folder for its files; by default the system's
	// temporary folder.
	Dir string

	// HeapMB is the Java heap's size limit in MiB, 256 by default.
	HeapMB int

	// QuickStart trades peak speed for start-up time: the JVM uses only its first compiler. Leave it off
	// for benchmarks.
	QuickStart bool

	// NoSync makes the server skip fsync on its transaction log. A killed process still loses nothing,
	// since the kernel has the data.
	NoSync bool

	// Observers are how many of the last servers of an ensemble are observers, which do not vote.
	Observers int

	// Joining are how many of the last servers of an ensemble the others do not know: they vote once they
	// are added, by reconfig and their Line.
	Joining int

	// FirstID is the number of an ensemble's first server, 1 by default. From 128 on the sessions' numbers
	// are negative.
	FirstID int

	// Extra lines are appended to zoo.cfg. The last value of a repeated key counts, so they override this
	// package's own.
	Extra []string

	// SystemProperties are given to the JVM as -Dkey=value.
	SystemProperties map[string]string

	// JAAS, if not empty, is the text of the server's JAAS file, such as DigestJAAS returns, and makes the server
	// accept SASL.
	JAAS string

	// Network, if not nil, is where the servers run. By default they listen on 127.0.0.1.
	Network *networktest.Network
}

func (c ZooKeeperConfig) withDefaults() ZooKeeperConfig {
	switch {
	case c.Stock:
		c.TickTime = 2 * time.Second
	case c.TickTime <= 0:
		c.TickTime = 200 * time.Millisecond
	}
	if c.MaxSessionTimeout <= 0 {
		c.MaxSessionTimeout = 60 * time.Second
	}
	if c.HeapMB <= 0 {
		c.HeapMB = 256
	}
	c.FirstID = max(c.FirstID, 1)
	return c
}

// peer is an ensemble member's place in the configuration.
type peer struct {
	id         int
	ip         string
	quorumPort int
	electPort  int
	observes   bool
}

// String returns the peer's line in zoo.cfg.
func (p peer) String() string {
	role := "participant"
	if p.observes {
		role = "observer"
	}
	return fmt.Sprintf("server.%d=%s:%d:%d:%s", p.id, p.ip, p.quorumPort, p.electPort, role)
}

// file returns the contents of zoo.cfg of a server: number id among peers, or a standalone one if there are
// no peers.
func (c ZooKeeperConfig) file(dataDir, ip string, port, id int, peers []peer) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("tickTime=%d", c.TickTime.Milliseconds())
	line("dataDir=%s", dataDir)
	line("clientPort=%d", port)
	line("clientPortAddress=%s", ip)
	line("admin.enableServer=false")
	line("4lw.commands.whitelist=conf,mntr,ruok,srvr,wchp")
	// Both limits are in ticks. The first is as long as in the stock file, 20 s. The second decides how
	// soon a frozen leader is given up: after 2 s, or 10 s in the stock file.
	initLimit, syncLimit := max(10, int(20*time.Second/c.TickTime)), max(3, int(2*time.Second/c.TickTime))
	if c.Stock {
		initLimit, syncLimit = 10, 5
	} else {
		line("maxSessionTimeout=%d", c.MaxSessionTimeout.Milliseconds())
		line("maxClientCnxns=0")
	}
	if len(peers) > 0 {
		line("initLimit=%d", initLimit)
		line("syncLimit=%d", syncLimit)
		for _, p := range peers {
			line("%s", p)
			if p.id == id && p.observes {
				line("peerType=observer")
			}
		}
	}
	for _, extra := range c.Extra {
		line("%s", extra)
	}
	return b.String()
}

// javaArgs is java's command line.
func (c ZooKeeperConfig) javaArgs(classPath, tmpDir, configFile, jaasFile string) []string {
	args := []string{
		"-XX:-UsePerfData", // no files in /tmp/hsperfdata_*
		"-XX:+ExitOnOutOfMemoryError",
	}
	props := map[string]string{
		"java.io.tmpdir":                        tmpDir,
		"org.slf4j.simpleLogger.showDateTime":   "true",
		"org.slf4j.simpleLogger.dateTimeFormat": "HH:mm:ss.SSS",
		// One log line per four-letter word would drown everything else.
		"org.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn": "warn",
	}
	if !c.Stock {
		args = append(args, fmt.Sprintf("-Xmx%dm", c.HeapMB), "-XX:+UseSerialGC")
		// In ms. By default a server without a leader asks the others again only after up to a minute.
		props["zookeeper.fastleader.maxNotificationInterval"] = "1000"
	}
	if c.QuickStart && !c.Stock {
		args = append(args, "-XX:TieredStopAtLevel=1")
	}
	if c.NoSync && !c.Stock {
		props["zookeeper.forceSync"] = "no"
	}
	if c.JAAS != "" {
		props["java.security.auth.login.config"] = jaasFile
		props["zookeeper.authProvider.sasl"] = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
		props["zookeeper.fips-mode"] = "false" // otherwise servers from 3.9 on have no DIGEST-MD5
	}
	maps.Copy(props, c.SystemProperties)
	for _, key := range slices.Sorted(maps.Keys(props)) {
		args = append(args, "-D"+key+"="+props[key])
	}
	return append(args, "-cp", classPath, zooKeeperMain, configFile)
}

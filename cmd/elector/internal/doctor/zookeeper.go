package doctor

import (
	"context"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/elector-go/elector/backend/zookeeper"
)

var errForeign = errors.New("is not Apache ZooKeeper")

// maxAnswer is how much of a server's answer is read.
const maxAnswer = 64 << 10

// zooKeeper asks a server by four-letter words. The server chooses which to answer: srvr alone by default.
func (s *Server) zooKeeper(ctx context.Context, b *zookeeper.Backend) {
	answer, err := s.word(ctx, b, "srvr")
	if s.use != nil {
		return
	}
	srvr := lines(answer, ": ")
	version, _, _ := strings.Cut(srvr["Zookeeper version"], "-")
	// ClickHouse Keeper and RaftKeeper begin with "ClickHouse Keeper version: v24.3", for example.
	first, _, _ := strings.Cut(answer, "\n")
	product, theirs, foreign := strings.Cut(first, " version: ")
	switch {
	case version == "" && foreign:
		s.Findings.add("product", Fail, "use Apache ZooKeeper, etcd or Consul", "%.60q, version %.60q, is not supported: it is not Apache ZooKeeper", product, theirs)
		s.use = errForeign
		return
	case strings.Contains(answer, "not currently serving"):
		s.unfit("serves", "see its log: fewer than half of the ensemble may be up", "is not serving: it has lost touch with the other servers")
		return
	case err != nil:
		s.Findings.add("version", Unknown, "", "no answer to four-letter words: %v", err)
	case version == "":
		s.unlisted("version", "srvr")
	default:
		s.Findings.add("product", OK, "", "Apache ZooKeeper, which is supported")
		s.tellVersion(version, 3, 5)
		s.zooKeeperRole(srvr["Mode"])
		s.zxids(srvr["Zxid"])
	}
	if s.use != nil {
		return
	}

	answer, err = s.word(ctx, b, "conf")
	if s.use != nil {
		return
	}
	conf := lines(answer, "=")
	tick, tickErr := strconv.Atoi(conf["tickTime"])
	least, leastErr := strconv.Atoi(conf["minSessionTimeout"])
	if err != nil || tickErr != nil || leastErr != nil {
		s.unlisted("settings", "conf")
		return
	}
	for _, name := range []string{"tickTime", "minSessionTimeout", "maxSessionTimeout"} {
		s.facts[name] = conf[name]
	}
	const says = "tickTime %.10s ms, minSessionTimeout %.10s ms, maxSessionTimeout %.10s ms, maxClientCnxns %.10s"
	values := []any{conf["tickTime"], conf["minSessionTimeout"], conf["maxSessionTimeout"], conf["maxClientCnxns"]}
	if least < 2*tick {
		s.Findings.add("settings", Warn, "set minSessionTimeout to two ticks at least, or leave it out", says, values...)
		return
	}
	s.Findings.add("settings", OK, "", says, values...)
}

// zooKeeperRole tells what a server is in its ensemble.
func (s *Server) zooKeeperRole(role string) {
	switch role {
	case "read-only":
		s.unfit("role", "see its log: fewer than half of the ensemble may be up", "is in read-only mode: it has lost touch with the other servers")
	case "observer":
		s.Findings.add("role", Unknown, "leave it out of the URL if it follows another follower (observerMasterPort in zoo.cfg): trust windows would be too long", "observer")
	default:
		s.Findings.add("role", OK, "", "%.60s", role)
	}
}

// zxids tells how many transactions are left until the ensemble elects a leader again.
func (s *Server) zxids(latest string) {
	zxid, err := strconv.ParseUint(latest, 0, 64)
	if left := math.MaxUint32 - uint32(zxid); err == nil && zxid>>32 > 0 && left < math.MaxUint32/16 {
		s.Findings.add("zxid", Warn, "restart the leader when it suits", "%d transactions are left until the ensemble elects a leader again, which suspends all sessions for a moment", left)
	}
}

// unlisted notes that a server does not answer to a word, which is no fault.
func (s *Server) unlisted(check, word string) {
	s.Findings.add(check, Unknown, "to see it here, add "+word+" to 4lw.commands.whitelist in zoo.cfg", "the server does not answer to %q", word)
}

// word returns a server's answer to a four-letter word. A silent server is unfit; err is any other fault.
func (s *Server) word(ctx context.Context, b *zookeeper.Backend, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var answer []byte
	conn, err := b.Dial(ctx, s.Address)
	if err == nil {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
		if _, err = io.WriteString(conn, word); err == nil {
			answer, err = io.ReadAll(io.LimitReader(conn, maxAnswer))
		}
	}
	if err != nil && (conn == nil || ctx.Err() != nil) {
		s.failed(ctx, err)
	}
	return string(answer), err
}

// lines returns the answer's lines with a name and a value.
func lines(answer, between string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(answer) {
		if name, value, ok := strings.Cut(line, between); ok {
			all[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return all
}

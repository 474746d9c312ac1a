package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
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

	answer, _ = s.word(ctx, b, "conf")
	if s.use != nil {
		return
	}
	s.zooKeeperSettings(lines(answer, "="))
	answer, _ = s.word(ctx, b, "mntr")
	if s.use != nil {
		return
	}
	s.zooKeeperLoad(lines(answer, "\t"))
}

// zooKeeperSettings judges the answer to conf.
func (s *Server) zooKeeperSettings(conf map[string]string) {
	tick, tickErr := strconv.Atoi(conf["tickTime"])
	least, leastErr := strconv.Atoi(conf["minSessionTimeout"])
	if tickErr != nil || leastErr != nil {
		s.unlisted("settings", "conf")
		return
	}
	s.facts["id"] = conf["serverId"]
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

// zooKeeperLoad judges the answer to mntr.
func (s *Server) zooKeeperLoad(mntr map[string]string) {
	if mntr["zk_version"] == "" {
		s.unlisted("throttling", "mntr")
		return
	}
	s.facts["follows"] = mntr["zk_observer_master_id"]
	waited, _ := strconv.Atoi(mntr["zk_request_throttle_wait_count"]) // 0 if the server has none
	refused, _ := strconv.Atoi(mntr["zk_throttled_ops"])
	if waited+refused > 0 {
		s.Findings.add("throttling", Warn, "raise request_throttle_max_requests and throttled_op_wait_time, or see what loads the servers",
			"since it started, it has held back requests %d times, and refused %d", waited, refused)
		return
	}
	s.Findings.add("throttling", OK, "", "none since it started")
}

// zooKeeperRole tells what a server is in its ensemble.
func (s *Server) zooKeeperRole(role string) {
	s.facts["role"] = role
	switch role {
	case "read-only":
		s.unfit("role", "see its log: fewer than half of the ensemble may be up", "is in read-only mode: it has lost touch with the other servers")
	case observer: // see observers
	default:
		s.Findings.add("role", OK, "", "%.60s", role)
	}
}

const observer = "observer"

// observers tells what the ensemble's observers follow. Behind another follower a trust window may be too long if
// the session timeout is shorter than five ticks.
func (r *Report) observers(timeout time.Duration) {
	const leaveOut = "leave it out of the URL, or give timeout= five ticks at least: trust windows would be too long"
	roles, leader := make(map[string]string), ""
	for _, s := range r.Servers {
		roles[s.facts["id"]] = s.facts["role"]
		if s.facts["role"] == "leader" {
			leader = s.facts["id"]
		}
	}
	for _, s := range r.Servers {
		master := s.facts["follows"]
		tick, err := strconv.Atoi(s.facts["tickTime"])
		switch {
		case s.facts["role"] != observer:
		case master != "" && master == leader:
			s.Findings.add("role", OK, "", "observer, which follows the leader")
		case err == nil && timeout >= 5*time.Duration(tick)*time.Millisecond:
			s.Findings.add("role", OK, "", "observer, and the timeout of %v is five ticks at least", timeout)
		case master != "" && (leader != "" || roles[master] == "follower"):
			s.Findings.add("role", Warn, leaveOut, "observer, which follows server %.20s and not the leader (observerMasterPort in zoo.cfg)", master)
		default:
			s.Findings.add("role", Unknown, leaveOut, "observer: it may follow another follower (observerMasterPort in zoo.cfg)")
		}
	}
}

// quota tells how much is left of the quotas on a path, and on those above it, that the servers may enforce.
func (p *probe) quota() {
	conn := zookeeper.Conn(p.s)
	for node := backend.Parent(zookeeper.Path(p.s, p.dir)); node != "/"; node = backend.Parent(node) {
		const tree = "/zookeeper/quota"
		limits, _, err := conn.Get(tree + node + "/zookeeper_limits")
		if err != nil { // there is none, or it is not for these credentials
			continue
		}
		stats, _, err := conn.Get(tree + node + "/zookeeper_stats")
		if err != nil {
			continue
		}
		limit, used := numbers(limits), numbers(stats)
		for _, of := range []struct {
			limit, used, says string
			few               int
		}{{"countHardLimit", "count", "nodes", 10}, {"byteHardLimit", "bytes", "bytes", 1 << 10}} {
			most, now := limit[of.limit], used[of.used]
			switch says := fmt.Sprintf("%d of %d %s are used on %s", now, most, of.says, node); {
			case most <= 0:
			case most-now < max(most/10, of.few):
				p.f.add("quota", Warn, "raise it, or delete what is of no use", "%s: commits are refused beyond that, if the servers have enforceQuota", says)
			default:
				p.f.add("quota", OK, "", "%s", says)
			}
		}
	}
}

var numberOf = regexp.MustCompile(`(\w+)=(-?\d+)`)

// numbers returns what a text such as "count=4,bytes=-1=;countHardLimit=8" says.
func numbers(text []byte) map[string]int {
	all := make(map[string]int)
	for _, m := range numberOf.FindAllSubmatch(text, -1) {
		all[string(m[1])], _ = strconv.Atoi(string(m[2]))
	}
	return all
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

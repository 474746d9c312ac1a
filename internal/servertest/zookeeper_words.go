package servertest

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Modes returned by ZooKeeper.Mode.
const (
	ModeStandalone = "standalone"
	ModeLeader     = "leader"
	ModeFollower   = "follower"
	ModeObserver   = "observer"
)

// Command sends a four-letter word such as "ruok", "srvr", "mntr" or "wchp" and returns the answer. It
// blocks for at most three seconds.
func (z *ZooKeeper) Command(word string) (string, error) {
	return command(z.Addr(), word, answerTimeout)
}

func command(addr, word string, timeout time.Duration) (answer string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("servertest: %s: %w", word, err)
		}
	}()
	conn, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

// Mode returns ModeStandalone, ModeLeader or ModeFollower for a server that serves clients. Otherwise it
// returns an error, which wraps ErrNotServing if the server answered.
func (z *ZooKeeper) Mode() (string, error) {
	info, err := z.info(answerTimeout)
	if err != nil {
		return "", err
	}
	return info["Mode"], nil
}

// Zxid returns the ID of the latest transaction that the server has applied. Its upper 32 bits are the
// epoch, which grows with every new leader.
func (z *ZooKeeper) Zxid() (int64, error) {
	info, err := z.info(answerTimeout)
	if err != nil {
		return 0, err
	}
	return parseZxid(info)
}

func parseZxid(info map[string]string) (int64, error) {
	zxid, err := strconv.ParseInt(info["Zxid"], 0, 64)
	if err != nil {
		return 0, fmt.Errorf("servertest: srvr: %w", err)
	}
	return zxid, nil
}

// info parses the answer to srvr: lines of "Key: value".
func (z *ZooKeeper) info(timeout time.Duration) (map[string]string, error) {
	answer, err := command(z.Addr(), "srvr", timeout)
	if err != nil {
		return nil, err
	}
	info := make(map[string]string)
	for line := range strings.Lines(answer) {
		if key, value, ok := strings.Cut(line, ": "); ok {
			info[key] = strings.TrimSpace(value)
		}
	}
	if info["Mode"] == "" {
		return nil, fmt.Errorf("servertest: %s: %w", z.Addr(), ErrNotServing)
	}
	return info, nil
}

// Metrics returns the numbers from mntr without their "zk_" prefix, for example packets_received,
// packets_sent, num_alive_connections, watch_count, znode_count and ephemerals_count. They count for this
// server alone, from its start. Four-letter words are not counted as packets, but their connections count
// as alive while they last.
func (z *ZooKeeper) Metrics() (map[string]float64, error) { return ZooKeeperMetrics(z.Addr()) }

// ZooKeeperMetrics is ZooKeeper.Metrics for any server's address.
func ZooKeeperMetrics(addr string) (map[string]float64, error) {
	answer, err := command(addr, "mntr", answerTimeout)
	if err != nil {
		return nil, err
	}
	metrics := make(map[string]float64)
	for line := range strings.Lines(answer) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		// Texts, such as the version and the server's state, are not numbers.
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			metrics[strings.TrimPrefix(key, "zk_")] = number
		}
	}
	if len(metrics) == 0 {
		return nil, fmt.Errorf("servertest: %s: %w", addr, ErrNotServing)
	}
	return metrics, nil
}

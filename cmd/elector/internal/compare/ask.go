package compare

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/internal/services"
)

// askTimeout bounds the request to one server for its figures.
const askTimeout = 3 * time.Second

// figures asks all servers that the URL names, and returns the sums. ZooKeeper's counts include heartbeats,
// one packet received and one sent for each.
func (r *remote) figures(ctx context.Context) (map[string]float64, error) {
	servers, err := dial.Servers(r.URL)
	if err != nil {
		return nil, err
	}
	sum := make(map[string]float64)
	for _, server := range servers {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		values, err := r.ask(ctx, server.Address)
		cancel()
		if err != nil {
			return nil, err
		}
		for name, v := range values {
			sum[name] += v
		}
	}
	beats := float64(r.Traffic.Heartbeats.Load())
	for name := range sum {
		sum[name] -= beats
	}
	return sum, nil
}

func (r *remote) ask(ctx context.Context, host string) (map[string]float64, error) {
	switch r.Scheme() {
	case services.ZooKeeper.Scheme:
		if strings.Contains(r.URL, "tls=true") {
			return nil, errors.New("ZooKeeper's four-letter words are not asked for over TLS")
		}
		return srvr(ctx, host)
	case services.Etcd.Scheme:
		return r.scrape(ctx, host, "/metrics", etcdCounters)
	case services.Consul.Scheme:
		return r.scrape(ctx, host, "/v1/agent/metrics?format=prometheus", consulCounters)
	}
	return nil, fmt.Errorf("servers of %s:// are not asked for figures", r.Scheme())
}

var packets = regexp.MustCompile(`(?m)^(Received|Sent): (\d+)$`)

// srvr asks a ZooKeeper server by the four-letter word that it answers by default.
func srvr(ctx context.Context, host string) (map[string]float64, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	until, _ := ctx.Deadline()
	if err := conn.SetDeadline(until); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 1<<16))
	if err != nil {
		return nil, err
	}
	values := make(map[string]float64)
	for _, line := range packets.FindAllStringSubmatch(string(answer), -1) {
		values[strings.ToLower(line[1])], err = strconv.ParseFloat(line[2], 64)
	}
	if len(values) == 0 {
		return nil, fmt.Errorf(`%s does not answer to "srvr": it is to be named in 4lw.commands.whitelist`, host)
	}
	return values, err
}

// A counter is a metric in Prometheus's form. The labelled ones of a name are added up.
type counter struct {
	metric, name string
	but          *regexp.Regexp // labels that don't count
}

// A heartbeat is a keep-alive and a member list.
var heartbeats = regexp.MustCompile(`grpc_method="(LeaseKeepAlive|MemberList)"`)

var etcdCounters = []counter{
	{"grpc_server_msg_received_total", "received", heartbeats},
	{"grpc_server_msg_sent_total", "sent", heartbeats},
	{"etcd_mvcc_txn_total", "txns", nil},
}

var consulCounters = []counter{
	{"consul_raft_apply", "commits", nil},
}

// scrape reads counters from a page of metrics.
func (r *remote) scrape(ctx context.Context, host, path string, counters []counter) (map[string]float64, error) {
	url := "http://" + host + path
	if strings.Contains(r.URL, "tls=true") {
		url = "https://" + host + path
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if token := os.Getenv("CONSUL_HTTP_TOKEN"); token != "" && r.Scheme() == services.Consul.Scheme {
		request.Header.Set("X-Consul-Token", token)
	}
	answer, err := asker.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		says, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
		return nil, fmt.Errorf("%s: %s: %s", url, answer.Status, strings.TrimSpace(string(says)))
	}
	values := make(map[string]float64)
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		metric, value, _ := strings.Cut(lines.Text(), " ")
		metric, labels, _ := strings.Cut(metric, "{")
		for _, c := range counters {
			if c.metric != metric || c.but != nil && c.but.MatchString(labels) {
				continue
			}
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %s is %q", url, metric, value)
			}
			values[c.name] += v
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("%s: no %s there", url, counters[0].metric)
	}
	return values, nil
}

// asker keeps no connections, which would count as goroutines that nobody ends.
var asker = http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}}

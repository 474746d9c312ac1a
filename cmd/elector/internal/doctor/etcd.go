package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/net/http/httpproxy"
)

// throughProxy returns the proxy of the environment by which gRPC connects to a server, if there is one. This
// command's own connections to the server bypass it.
func throughProxy(address string) (proxy string, ok bool) {
	u, err := httpproxy.FromEnvironment().ProxyFunc()(&url.URL{Scheme: "https", Host: address})
	switch {
	case err != nil:
		return err.Error(), true
	case u == nil:
		return "", false
	}
	return u.Redacted(), true
}

// etcd asks a member for its status, by a request without retries, so that gRPC tells why a connection failed.
func (s *Server) etcd(ctx context.Context, client *clientv3.Client) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	a, err := pb.NewMaintenanceClient(client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	switch err := rpctypes.Error(err); {
	case err == nil:
	case ctx.Err() == nil && refusesUser(err):
		s.Findings.add("status", Warn, lackRights, "%v", err)
		return
	default:
		s.failed(ctx, err)
		return
	}
	if proxy, ok := throughProxy(s.Address); ok {
		s.Findings.add("proxy", Warn, "name the server in NO_PROXY", "candidates with this environment connect to it by way of %s (HTTPS_PROXY)", proxy)
	}
	s.facts["cluster"] = fmt.Sprintf("%x", a.GetHeader().GetClusterId())
	s.tellVersion(a.Version, 3, 5)
	switch {
	case a.Leader == 0:
		s.unfit("role", "see its log: fewer than half of the cluster may be up", "knows no leader: it has lost touch with the other members")
		return
	case a.IsLearner:
		s.unfit("role", "take it out of the URL, or promote it", "a learner: it takes no part in elections")
		return
	case a.Leader == a.GetHeader().GetMemberId():
		s.Findings.add("role", OK, "", "leader")
	default:
		s.Findings.add("role", OK, "", "follower")
	}
	const mib = 1 << 20
	size := fmt.Sprintf("the database has %.1f MiB, %.1f of them in use", float64(a.DbSize)/mib, float64(a.DbSizeInUse)/mib)
	if a.DbSizeQuota > 0 {
		size += fmt.Sprintf("; the quota is %d MiB", a.DbSizeQuota/mib)
	}
	for _, text := range a.Errors { // alarms of all members, and what this one lacks
		if strings.Contains(text, "NOSPACE") {
			s.Findings.add("space", Fail, "compact, defragment, or raise --quota-backend-bytes; then: etcdctl alarm disarm", "the alarm NOSPACE is on: nothing can be written; %s", size)
			return
		}
		s.Findings.add("alarm", Fail, "see the servers' logs, and: etcdctl alarm list", "%s", text)
	}
	if a.DbSizeQuota > 0 && a.DbSize > a.DbSizeQuota/5*4 {
		s.Findings.add("space", Warn, "compact and defragment, or raise --quota-backend-bytes", "over four fifths of the quota: %s", size)
		return
	}
	s.Findings.add("space", OK, "", "%s", size)
}

// refusesUser reports whether the servers do not know the user, or do not let the user ask.
func refusesUser(err error) bool {
	return errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrAuthFailed) || errors.Is(err, rpctypes.ErrPermissionDenied) ||
		errors.Is(err, rpctypes.ErrInvalidAuthToken)
}

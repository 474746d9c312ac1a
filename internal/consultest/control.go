package consultest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/attempt"
	"github.com/elector-go/elector/internal/servertest"
)

// controlDir is where controls write.
const controlDir = "elector-control/"

// Controls keep sessions of the bare client library, one at each member, as
// conformance.Service.Controls says: with a health check where cfg has the backend's sessions
// have one.
func (s *Servers) Controls(ttl time.Duration, cfg consul.Config) (controls []attempt.Control) {
	for _, m := range s.Members {
		controls = append(controls, Control(m, ttl, cfg.Check != 0))
	}
	return controls
}

// Control is that of one agent.
func Control(agent *servertest.Consul, ttl time.Duration, checked bool) attempt.Control {
	return func(ctx context.Context, answered func(sent time.Time)) error {
		return keep(ctx, agent, ttl, checked, answered)
	}
}

func keep(ctx context.Context, agent *servertest.Consul, ttl time.Duration, checked bool, answered func(sent time.Time)) error {
	conf := api.DefaultConfig()
	conf.Address, conf.Token = agent.Addr(), agent.Token()
	conf.Transport.Proxy = nil
	conf.HttpClient = &http.Client{Transport: conf.Transport, Timeout: ttl}
	defer conf.Transport.CloseIdleConnections()
	client, err := api.NewClient(conf)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	entry := &api.SessionEntry{TTL: ttl.String(), Behavior: api.SessionBehaviorDelete}
	check := ""
	if checked {
		check = fmt.Sprintf("control-%d", time.Now().UnixNano())
		if err := register(ctx, client, check, ttl); err != nil {
			return err
		}
		defer func() { _ = client.Agent().ServiceDeregister(check) }() // the agent does it later
		// A session's own timeout cannot be as short as that of its check.
		entry.TTL = max(ttl, consul.MinSessionTimeout).String()
		entry.ServiceChecks = []api.ServiceCheck{{ID: check}}
	}
	id, err := create(ctx, client, entry)
	if err != nil {
		return err
	}
	defer func() { _, _ = client.Session().Destroy(id, nil) }() // it goes by itself otherwise

	over := make(chan error, 1)
	go func() {
		over <- client.Session().RenewPeriodic(entry.TTL, id, new(api.WriteOptions).WithContext(ctx), nil)
	}()
	query := (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	return attempt.Every(ctx, ttl, answered, func() error {
		var passed error
		if checked {
			passed = pass(ctx, client, check)
		}
		// A write, as rules do them: the leader and a quorum have a part in it. The key goes with
		// the session.
		_, _, written := client.KV().Acquire(&api.KVPair{Key: controlDir + id, Session: id}, new(api.WriteOptions).WithContext(ctx))
		session, _, err := client.Session().Info(id, query)
		if err == nil && session == nil {
			return fmt.Errorf("%w: Consul has invalidated session %s", attempt.ErrLost, id)
		}
		select {
		case err := <-over:
			return fmt.Errorf("%w: RenewPeriodic has ended: %v", attempt.ErrLost, err) // nil once the session is gone
		default:
			return errors.Join(passed, written, err)
		}
	})
}

// register registers a TTL check and passes it for the first time.
func register(ctx context.Context, client *api.Client, id string, ttl time.Duration) error {
	err := client.Agent().ServiceRegisterOpts(&api.AgentServiceRegistration{
		ID: id, Name: "control",
		Check: &api.AgentServiceCheck{
			CheckID: id, TTL: ttl.String(), Status: api.HealthPassing, DeregisterCriticalServiceAfter: "1m",
		},
	}, api.ServiceRegisterOpts{}.WithContext(ctx))
	if err != nil {
		return err
	}
	return pass(ctx, client, id)
}

func pass(ctx context.Context, client *api.Client, check string) error {
	return client.Agent().UpdateTTLOpts(check, "", api.HealthPassing, new(api.QueryOptions).WithContext(ctx))
}

// create makes a session as soon as the servers have heard of its check from the agent.
func create(ctx context.Context, client *api.Client, entry *api.SessionEntry) (id string, err error) {
	open := client.Session().CreateNoChecks // as the backend has it: gossip does not end the session
	if len(entry.ServiceChecks) > 0 {
		open = client.Session().Create
	}
	for range 100 {
		id, _, err = open(entry, new(api.WriteOptions).WithContext(ctx))
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "Missing check") {
			return id, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return id, err
}

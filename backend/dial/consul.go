package dial

import (
	"errors"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend/consul"
)

func openConsul(t *target, o options) (*Backend, error) {
	switch {
	case t.path != "":
		return nil, errors.New("takes no path, for Consul has no prefix for a client's keys: put it into the election's name")
	case len(t.servers) > 1:
		return nil, errors.New("takes one host: name one agent, such as the one on this machine; it knows the servers")
	}
	client, closeIdle, err := consulClient(t, o)
	if err != nil {
		return nil, err
	}
	watches, closeIdleToo, err := consulClient(t, o)
	if err != nil {
		return nil, err
	}
	b, err := consul.New(client, consul.Config{SessionTimeout: t.timeout, Check: t.check, Watches: watches, Logger: o.log})
	if err != nil {
		return nil, err
	}
	return opened(b, func() error {
		closeIdle()
		closeIdleToo()
		return nil
	}), nil
}

// consulClient makes a client with connections of its own.
func consulClient(t *target, o options) (client *api.Client, closeIdle func(), err error) {
	config := api.DefaultConfig() // with what the environment says
	config.Address = t.servers[0]
	if t.tls != nil {
		config.Scheme = "http"
		if *t.tls {
			config.Scheme = "https"
		}
	}
	if o.dial != nil {
		config.Transport.DialContext = o.dial
	}
	client, err = api.NewClient(config)
	return client, config.Transport.CloseIdleConnections, err
}

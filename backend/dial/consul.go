package dial

import (
	"crypto/tls"
	"errors"
	"os"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
)

func openConsul(t *target, o options) (backend.Backend, func() error, error) {
	switch {
	case t.path != "":
		return nil, nil, errors.New("takes no path, for Consul has no prefix for a client's keys: put it into the election's name")
	case len(t.servers) > 1:
		return nil, nil, errors.New("takes one host: name one agent, such as the one on this machine; it knows the servers")
	}
	client, closeIdle, err := consulClient(t, o)
	if err != nil {
		return nil, nil, err
	}
	watches, closeIdleToo, err := consulClient(t, o)
	if err != nil {
		return nil, nil, err
	}
	b, err := consul.New(client, consul.Config{SessionTimeout: t.timeout, Check: t.check, Watches: watches, Logger: o.log})
	return b, func() error {
		closeIdle()
		closeIdleToo()
		return nil
	}, err
}

// consulClient makes a client with connections of its own.
func consulClient(t *target, o options) (client *api.Client, closeIdle func(), err error) {
	var env environment
	secured := env.secureConsul(t)
	if err := env.err(); err != nil {
		return nil, nil, err
	}
	config := api.DefaultConfig() // reads the environment
	config.Token = trimNewline(config.Token)
	if config.HttpAuth != nil {
		config.HttpAuth.Password = trimNewline(config.HttpAuth.Password)
	}
	config.Address, config.Scheme = t.servers[0], "http"
	if secured != nil {
		config.Scheme = "https"
	}
	// Over HTTP/2, which TLS brings along, all requests share a connection: a dead one continues to be
	// used, and the reason why TLS has refused it is not reported.
	config.Transport.ForceAttemptHTTP2 = false
	if o.dial != nil {
		config.Transport.DialContext = o.dial
	}
	client, err = api.NewClient(config)
	if err == nil && secured != nil && secured.GetClientCertificate != nil {
		own := config.Transport.TLSClientConfig // with the environment's settings, too
		own.Certificates, own.GetClientCertificate = nil, secured.GetClientCertificate
	}
	return client, config.Transport.CloseIdleConnections, err
}

// secureConsul checks what the client library reads from the environment by itself: the library's errors do
// not name the variable, and it only logs some. secureConsul returns nil if TLS is not wanted.
func (e *environment) secureConsul(t *target) *tls.Config {
	e.secretFile(api.HTTPTokenFileEnvName)
	e.flag(api.HTTPSSLVerifyEnvName)
	names := certificates{api.HTTPCAFile, api.HTTPClientCert, api.HTTPClientKey}
	wanted, set := e.flag(api.HTTPSSLEnvName)
	switch {
	case t.tls != nil:
		wanted = *t.tls
	case !set:
		wanted = names.set() || os.Getenv(api.HTTPCAPath) != ""
	}
	if config := e.tlsConfig(names); wanted {
		return config
	}
	return nil
}

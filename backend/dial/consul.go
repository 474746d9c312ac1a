package dial

import (
	"crypto/tls"
	"errors"
	"os"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/environment"
	"github.com/elector-go/elector/tlsfiles"
)

var consulScheme = Scheme{
	Name: "consul", Usage: "consul://host[:port]", Port: "8500", Params: []string{"check", "timeout", "tls"},
	Secret: "set CONSUL_HTTP_TOKEN, CONSUL_HTTP_TOKEN_FILE or CONSUL_HTTP_AUTH", Open: openConsul,
}

func openConsul(t *Target) (backend.Backend, func() error, error) {
	switch {
	case t.Path != "":
		return nil, nil, errors.New("takes no path, for Consul has no prefix for a client's keys: put it into the election's name")
	case len(t.Servers) > 1:
		return nil, nil, errors.New("takes one host: name one agent, such as the one on this machine; it knows the servers")
	}
	check, err := t.duration("check")
	if err != nil {
		return nil, nil, err
	}
	client, closeIdle, err := consulClient(t)
	if err != nil {
		return nil, nil, err
	}
	watches, closeIdleToo, err := consulClient(t)
	if err != nil {
		return nil, nil, err
	}
	b, err := consul.New(client, consul.Config{SessionTimeout: t.Timeout, Check: check, Watches: watches, Logger: t.Logger})
	return b, func() error {
		closeIdle()
		closeIdleToo()
		return nil
	}, err
}

// consulClient makes a client with connections of its own.
func consulClient(t *Target) (client *api.Client, closeIdle func(), err error) {
	var env environment.Reader
	files, secured := secureConsul(&env, t.TLS)
	if err := env.Err(); err != nil {
		return nil, nil, err
	}
	config := api.DefaultConfig() // reads the environment
	config.Token = environment.TrimNewline(config.Token)
	if config.HttpAuth != nil {
		config.HttpAuth.Password = environment.TrimNewline(config.HttpAuth.Password)
	}
	config.Address, config.Scheme = t.Servers[0], "http"
	if secured {
		config.Scheme = "https"
	}
	// Over HTTP/2, which TLS brings along, all requests share a connection: a dead one continues to be
	// used, and the reason why TLS has refused it is not reported.
	config.Transport.ForceAttemptHTTP2 = false
	if t.DialContext != nil {
		config.Transport.DialContext = t.DialContext
	}
	if secured { // by way of a proxy the transport does it, with the files as they are at first
		config.Transport.DialTLSContext = tlsfiles.Dialer(config.Transport.DialContext, func() (*tls.Config, error) {
			now, err := files.Config()
			if err != nil {
				return nil, err
			}
			own, err := api.SetupTLSConfig(&config.TLSConfig) // with the environment's settings, too
			if err == nil {
				own.Certificates, own.GetClientCertificate = nil, now.GetClientCertificate
			}
			return own, err
		})
	}
	client, err = api.NewClient(config)
	return client, config.Transport.CloseIdleConnections, err
}

// secureConsul checks what the client library reads from the environment by itself: the library's errors do
// not name the variable, and it only logs some. It also says whether TLS is wanted.
func secureConsul(e *environment.Reader, tlsGiven *bool) (files tlsfiles.Files, wanted bool) {
	e.SecretFile(api.HTTPTokenFileEnvName)
	e.Flag(api.HTTPSSLVerifyEnvName)
	names := environment.Certificates{CA: api.HTTPCAFile, Cert: api.HTTPClientCert, Key: api.HTTPClientKey}
	wanted, set := e.Flag(api.HTTPSSLEnvName)
	switch {
	case tlsGiven != nil:
		wanted = *tlsGiven
	case !set:
		wanted = names.Set() || os.Getenv(api.HTTPCAPath) != ""
	}
	return e.Files(names), wanted
}

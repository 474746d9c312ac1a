// Package dial opens a backend by URL, for programs that leave the choice of the coordination service to
// their users, by a flag or a setting.
//
//	zk://h1:2181,h2:2181/chroot?timeout=10s     ZooKeeper
//	etcd://h1:2379,h2:2379/prefix?timeout=10s   etcd
//	consul://127.0.0.1:8500?timeout=10s         Consul, through one agent
//	mem://                                      a new service in this process
//	mem://name                                  the service of that name in this process
//
// Other modules bring schemes for services whose clients are large. A program imports them for that alone, as
// it does drivers of database/sql, and [Register] is how they do it:
//
//	import _ "github.com/elector-go/elector/backend/nats/dialnats"               // nats://h1,h2/bucket
//	import _ "github.com/elector-go/elector/backend/kubernetes/dialkubernetes"   // k8s://namespace/lease
//
// What it guarantees: a wrong URL is refused with an error that says what is wrong and what is allowed;
// nothing is ignored, guessed or rewritten. No error repeats a part of a URL that may be a secret.
//
// What it does not: it connects to nothing, so that an unreachable server is found only when a session is
// opened. It does not offer everything that a service's client can do. If you need more, make the client,
// and call New of the backend's own package.
//
// # Parts of a URL
//
// A host without a port gets the service's own port: 2181, 2379 or 8500. An IPv6 address needs brackets.
//
// The path is put before all keys, as a chroot (zk) or a prefix (etcd) that candidates do not see. All
// candidates of an election must use the same path. Consul has no such thing: a path is refused there and
// belongs in the election's name.
//
// Parameters:
//
//	timeout   the session timeout for sessions that ask for none, such as 10s; by default
//	          the backend's own. What the service grants counts.
//	check     consul only: tie sessions to a health check with this time to live, such
//	          as 2s, for failover in seconds; see backend/consul for the price. timeout
//	          is then how long entries stay if the agent is gone, too.
//	sasl      zk only: gssapi, for Kerberos, with package dialkerberos; see below.
//	tls       true: TLS; false: none. By default TLS is used if a certificate or an
//	          authority is set, see below. Without an authority those of the system count
//	          (on Unix the environment variable SSL_CERT_FILE names others).
//
// # Secured services
//
// URLs with credentials are refused, since URLs are printed and logged. Credentials come from the
// environment and from files, by the names that the services' own tools use:
//
//	what                   ZooKeeper             etcd                    Consul
//	user and password      ZOOKEEPER_AUTH        ETCDCTL_USER            CONSUL_HTTP_AUTH
//	                       ZOOKEEPER_AUTH_FILE   ETCDCTL_PASSWORD
//	                                             ETCDCTL_PASSWORD_FILE
//	token                                                                CONSUL_HTTP_TOKEN
//	                                                                     CONSUL_HTTP_TOKEN_FILE
//	authority (CA)         ZOOKEEPER_CACERT      ETCDCTL_CACERT          CONSUL_CACERT
//	client certificate     ZOOKEEPER_CERT        ETCDCTL_CERT            CONSUL_CLIENT_CERT
//	its key                ZOOKEEPER_KEY         ETCDCTL_KEY             CONSUL_CLIENT_KEY
//
// The last three are paths of PEM files. A variable that ends in _FILE is the path of a file with the
// secret; newlines at its end are ignored.
//
//   - ZOOKEEPER_AUTH is scheme:credentials, such as digest:user:password, or sasl:user:password for SASL with
//     DIGEST-MD5. It may also be a JAAS file with a section Client. Nodes created with it, or with Kerberos, are for
//     these credentials alone: all candidates of an election need the same ones.
//   - With sasl=gssapi in a URL of ZooKeeper's, a ticket of Kerberos is used: see package dialkerberos, which the
//     program must import, of the module backend/zookeeper/kerberos.
//   - ETCDCTL_USER is user:password, or the user if one of the others has the password. Without them the
//     user is the common name of the client certificate, if the servers want one.
//   - The other variables of Consul's tools count as well: CONSUL_CAPATH, CONSUL_NAMESPACE and so on. The
//     URL's host wins over CONSUL_HTTP_ADDR, and its tls over CONSUL_HTTP_SSL.
//
// Open refuses wrong and incomplete settings with an error that names the variable and the file, and
// contains no secret. Authorities, a client certificate and its key are read again for each connection (by
// package tlsfiles), the password of SASL in ZOOKEEPER_AUTH_FILE, too, and etcd's password file each time a token is
// fetched, so that they may be renewed while the process runs. Everything else is read once.
//
// Importing this package compiles the clients of ZooKeeper, etcd and Consul. Libraries, and programs that know their
// service, import its backend alone.
package dial

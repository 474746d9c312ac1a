// Package dialkerberos brings Kerberos to package dial's URLs of ZooKeeper. A program imports it for that alone:
//
//	import _ "github.com/elector-go/elector/backend/zookeeper/kerberos/dialkerberos"
//
// A URL asks for it:
//
//	zk://zk1.example.com,zk2.example.com/chroot?sasl=gssapi
//
// The ticket is that of who has called kinit, or comes from a keytab. All is named as the tools of Kerberos name it:
//
//	KRB5_CLIENT_KTNAME             the keytab
//	ZOOKEEPER_PRINCIPAL            the client's principal in the keytab, by default the first
//	KRB5CCNAME                     the credential cache if there is no keytab, by default /tmp/krb5cc_ and the user's number
//	KRB5_CONFIG                    krb5.conf, by default /etc/krb5.conf
//	ZOOKEEPER_SERVER_PRINCIPAL     the servers' principal, by default zookeeper/_HOST, with the URL's host for _HOST
//	ZOOKEEPER_AUTH_FILE            a JAAS file with Krb5LoginModule in its section Client: its keyTab, principal and
//	                               ticketCache go before the other variables, and the URL needs no sasl=gssapi
package dialkerberos

import (
	"cmp"
	"os"

	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/backend/zookeeper/kerberos"
)

func init() {
	dial.RegisterSASL("gssapi", func(jaas map[string]string) (zookeeper.SASL, error) {
		c := kerberos.Config{
			Principal: cmp.Or(jaas["principal"], os.Getenv("ZOOKEEPER_PRINCIPAL")), ServerPrincipal: os.Getenv("ZOOKEEPER_SERVER_PRINCIPAL"),
		}
		if jaas["useKeyTab"] == "true" {
			c.Keytab = jaas["keyTab"]
		} else if jaas["useTicketCache"] == "true" {
			c.Cache = jaas["ticketCache"]
		}
		return kerberos.New(c)
	})
}

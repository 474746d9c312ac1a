// Command elector shows and changes elections, runs a command while its process leads, checks whether a
// service is fit for elections, ends the sessions of dead processes, and compares strategies by measurement.
package main

import (
	"os"

	_ "github.com/elector-go/elector/backend/kubernetes/dialkubernetes"       // k8s://
	_ "github.com/elector-go/elector/backend/nats/dialnats"                   // nats://
	_ "github.com/elector-go/elector/backend/zookeeper/kerberos/dialkerberos" // zk://…?sasl=gssapi
	"github.com/elector-go/elector/cmd/elector/internal/cli"
)

func main() { os.Exit(cli.Main()) }

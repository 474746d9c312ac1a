// Command plain is a program without go test: it prints what a bubble did in it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/bubble"
)

func main() {
	began := time.Now()
	err := bubble.Run(func() error {
		time.Sleep(1000 * time.Hour)
		return errors.New(time.Now().UTC().Format(time.RFC3339))
	})
	deadlock := bubble.Run(func() error { select {} })
	flags := 0
	flag.VisitAll(func(*flag.Flag) { flags++ })
	fmt.Println(err)
	fmt.Println(deadlock)
	fmt.Println(flags, flag.Parsed(), len(os.Args), time.Since(began) < time.Minute)
}

// Command elector compares the ways in which candidates can elect a leader.
package main

import (
	"os"

	"github.com/elector-go/elector/cmd/elector/internal/cli"
)

func main() { os.Exit(cli.Main()) }

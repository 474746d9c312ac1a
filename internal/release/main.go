// Command release prepares a release of the library and of the modules beside it, and makes
// archives of the command for those who have no Go.
//
//	go run . v0.1.0              publishes to a folder, installs from there, and tells what to push
//	go run . -tag v0.1.0         the same, and makes the tags in this repository
//	go run . -dist DIR v0.1.0    makes the archives of cmd/elector and their checksums
//
// It never pushes. Run it in a clone, by make release and make dist.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
)

func main() {
	tag := flag.Bool("tag", false, "make the tags in this repository")
	dist := flag.String("dist", "", "make archives of the command in this `folder`, and no release")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: release [-tag | -dist DIR] VERSION, such as v0.1.0")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0), *dist, *tag); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, version, dist string, tag bool) error {
	root, err := output(ctx, "", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if dist != "" {
		return archiveAll(ctx, root, dist, version, targets)
	}
	r := release{root: root, version: version, say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	return r.make(ctx, tag)
}

// output runs a program in a folder, with these settings in its environment beside what is
// there, and returns what it prints. Its error has what it says is wrong.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

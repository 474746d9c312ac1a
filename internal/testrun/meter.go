package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// metered is the word by which go test -exec has testrun start a test's program. It then
// prints which tests the program has, and what processor time it has taken, its servers
// included.
const metered = "metered"

// profileFolder is the variable in the environment that says where CPU profiles go.
const profileFolder = "ELECTOR_TESTRUN_PROFILES"

// meter starts the program, and ends with its exit code.
func meter(args []string) (code int, err error) {
	if len(args) == 0 {
		return 2, errors.New("metered: say which program")
	}
	tests, err := list(args[0])
	if err != nil {
		return 1, err
	}
	if p, err := profile(); err != nil {
		return 1, err
	} else if p != "" {
		args = append(args, "-test.cpuprofile="+p)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	// What go test tells a program that takes too long is for the program.
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGQUIT, syscall.SIGTERM)
	go func() {
		for s := range told {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 1, err
	}
	used := cmd.ProcessState
	fmt.Println(listPrefix + strings.Join(tests, " "))
	fmt.Println(cpuLine(used.UserTime(), used.SystemTime()))
	if used.ExitCode() < 0 {
		return 1, err
	}
	return used.ExitCode(), nil
}

const listPrefix = "tests: "

// list are the tests that a program has.
func list(program string) ([]string, error) {
	out, err := exec.Command(program, "-test.list=^(Test|Fuzz|Example)").Output()
	if err != nil {
		return nil, fmt.Errorf("%s -test.list: %w", program, err)
	}
	return strings.Fields(string(out)), nil
}

const cpuFormat = "processor time: user %f s, system %f s"

func cpuLine(user, system time.Duration) string {
	return fmt.Sprintf(cpuFormat, user.Seconds(), system.Seconds())
}

// profile is where the CPU profile of the package in this folder goes, "" for those that
// try no rules: go test takes a profile of one package at a time only.
func profile() (string, error) {
	folder := os.Getenv(profileFolder)
	if folder == "" {
		return "", nil
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	name := filepath.Base(here)
	if name != "conformance" && filepath.Base(filepath.Dir(here)) != "backend" {
		return "", nil
	}
	return filepath.Join(folder, strings.ReplaceAll(name, ".", "_")+".prof"), os.MkdirAll(folder, 0o777)
}

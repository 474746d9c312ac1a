package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPage holds that docs/start.md shows the code of these files, which compiles, and
// all of it: a reader who copies it has a program that runs.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/start.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, flush(m[1]))
	}
	left := make(map[string]string) // of each file, what no block has
	for _, file := range []string{"main.go", "main_test.go", "numbered.go", "numbered_test.go"} {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		left[file] = flush(string(code))
	}
	for _, block := range blocks {
		found := false
		for file, code := range left {
			if before, after, ok := strings.Cut(code, block); ok {
				left[file], found = before+"\n"+after, true
			}
		}
		if !found {
			t.Errorf("a block of the page is in no file, or twice on the page:%s", block)
		}
	}
	for file, code := range left {
		if rest := strings.TrimSpace(code); rest != "" {
			t.Errorf("%s: not on the page:\n%s", file, rest)
		}
	}
}

// flush returns code without indentation, each line between two line ends.
func flush(code string) string {
	return "\n" + regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(strings.TrimRight(code, "\n"), "") + "\n"
}

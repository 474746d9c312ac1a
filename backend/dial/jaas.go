package dial

import (
	"errors"
	"regexp"
	"strings"
	"text/scanner"
	"unicode"
)

var (
	// beginJAAS begins the section of a JAAS file that ZooKeeper's clients in Java read.
	beginJAAS  = regexp.MustCompile(`(?m)^\s*Client\s*\{`)
	escapeJAAS = regexp.MustCompile(`\\(.)`)
)

// parseJAAS returns the first module of the section Client, by the last part of its class, and the module's options.
// text is what follows the section's begin. The error has no part of it.
func parseJAAS(text string) (module string, options map[string]string, err error) {
	var s scanner.Scanner
	s.Init(strings.NewReader(text))
	s.Mode = scanner.ScanIdents | scanner.ScanStrings | scanner.ScanComments | scanner.SkipComments
	s.IsIdentRune = func(r rune, _ int) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-.$*", r)
	}
	s.Error = func(*scanner.Scanner, string) {} // such as an escape that only Java has
	var tokens []string
	for kind := s.Scan(); kind != ';'; kind = s.Scan() {
		if kind == scanner.EOF || kind == '}' {
			return "", nil, errors.New("the section Client does not end in a semicolon and a brace")
		}
		token := s.TokenText()
		if kind == scanner.String {
			token = escapeJAAS.ReplaceAllString(strings.TrimSuffix(token[1:], `"`), "$1")
		}
		tokens = append(tokens, token)
	}
	if len(tokens) < 2 || len(tokens)%3 != 2 {
		return "", nil, errors.New("the section Client is not MODULE required name=value name=value;")
	}
	options = make(map[string]string)
	for i := 2; i < len(tokens); i += 3 { // after the flag
		if tokens[i+1] != "=" {
			return "", nil, errors.New("the section Client has an option that is not name=value")
		}
		options[tokens[i]] = tokens[i+2]
	}
	return tokens[0][strings.LastIndex(tokens[0], ".")+1:], options, nil
}

package servertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// loopbackHTTP keeps no connection: one to a server that was killed or frozen
// since would fail the next request.
var loopbackHTTP = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// object is a JSON object to be sent or written.
type object map[string]any

// Get reads what a server has at a URL, and parses its JSON into result, unless that is nil.
func Get(timeout time.Duration, url string, result any) error {
	return ask(timeout, http.MethodGet, url, nil, "", result)
}

// ask sends a request and parses the answer's JSON into result, unless that is
// nil. An answer other than 200 is an error that wraps ErrNotServing and shows
// its text.
func ask(timeout time.Duration, method, url string, header http.Header, body string, result any) error {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("servertest: %w", err)
	}
	request.Header = header
	client := loopbackHTTP
	client.Timeout = timeout
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("servertest: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("servertest: %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("servertest: %s: %w: %s: %s", url, ErrNotServing, response.Status, strings.TrimSpace(string(text)))
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(text, result); err != nil {
		return fmt.Errorf("servertest: %s: %w", url, err)
	}
	return nil
}

package servertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// loopbackHTTP keeps no connections: the next request would fail on a connection to a server that was
// killed or frozen since.
var loopbackHTTP = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// object is a JSON object to send or write.
type object map[string]any

// Get reads a URL and parses its JSON into result, unless result is nil.
func Get(timeout time.Duration, url string, result any) error {
	return ask(timeout, http.MethodGet, url, nil, "", result)
}

// ask is askBy without encryption.
func ask(timeout time.Duration, method, url string, header http.Header, body string, result any) error {
	return askBy(loopbackHTTP, timeout, method, url, header, body, result)
}

// askBy sends a request and parses the JSON of the response into result, unless result is nil. A status other
// than 200 and 201 is an error that wraps ErrNotServing and contains the response's text.
func askBy(client http.Client, timeout time.Duration, method, url string, header http.Header, body string, result any) error {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("servertest: %w", err)
	}
	request.Header = header
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
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusCreated {
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

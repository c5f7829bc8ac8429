package apiserver_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/differential/script"
)

// quotedToken is a token of a service account in a JSON document.
var quotedToken = regexp.MustCompile(`"eyJ[\w-]+\.[\w-]+\.[\w-]+"`)

// readable puts what tokens say in the place of the tokens, with times relative to when they were
// issued.
func readable(t *testing.T, body []byte) []byte {
	t.Helper()
	return quotedToken.ReplaceAllFunc(body, func(quoted []byte) []byte {
		parts := strings.Split(strings.Trim(string(quoted), `"`), ".")
		var said [2]map[string]any
		for i := range said {
			raw, err := base64.RawURLEncoding.DecodeString(parts[i])
			if err != nil {
				return quoted // the script has made it up
			}
			if err := json.Unmarshal(raw, &said[i]); err != nil {
				return quoted
			}
		}
		issued, _ := said[1]["iat"].(float64)
		relative(said[1], issued)
		raw, err := json.Marshal(map[string]any{"header": said[0], "claims": said[1]})
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		return raw
	})
}

func relative(claims map[string]any, issued float64) {
	for key, value := range claims {
		switch value := value.(type) {
		case map[string]any:
			relative(value, issued)
		case float64:
			claims[key] = value - issued
		}
	}
}

// chosen has the names of the addresses and node ports in one answer that a server has chosen for Services, in the order
// in which they are there. What was given back may be given out again. Scripts choose theirs in the other part of the
// ranges.
type chosen map[string]string

var (
	clusterIP = regexp.MustCompile(`\b(?:10\.0\.0\.(1[7-9]|[2-9]\d|1\d\d|2[0-4]\d|25[0-4])|fd00::[1-9a-f][0-9a-f]{2,3})\b`)
	nodePort  = regexp.MustCompile(`"(?:n|healthCheckN)odePort":(3008[6-9]|3009\d|30[1-9]\d\d|31\d\d\d|32[0-7]\d\d)\b`)
)

func (c chosen) hide(body []byte) []byte {
	name := func(of, what string) string {
		if c[of] == "" {
			c[what] += "|"
			c[of] = fmt.Sprintf("<%s %d>", what, len(c[what]))
		}
		return c[of]
	}
	body = clusterIP.ReplaceAllFunc(body, func(ip []byte) []byte { return []byte(name(string(ip), "address")) })
	return nodePort.ReplaceAllFunc(body, func(port []byte) []byte {
		before, number, _ := strings.Cut(string(port), ":")
		return []byte(before + `:"` + name(number, strings.Trim(before, `"`)) + `"`)
	})
}

// events are the audit events of the steps of a transcript that have an Audit-Id, as results.
func (s *server) events(t *testing.T, transcript play.Transcript) []play.Result {
	t.Helper()
	var all []play.Result
	for _, r := range transcript.Results {
		for _, f := range r.Step.Header {
			if f.Name != "Audit-Id" {
				continue
			}
			const behind = 1 << 40 // the lines of reviews
			found := s.recorded(t, f.Value)
			for i, event := range found {
				all = append(all, play.Result{
					Case: "audit " + r.Case,
					Step: script.Step{
						Line: behind + int(crc32.ChecksumIEEE([]byte(f.Value)))<<4 + i, Text: "audit of " + f.Value,
						Method: http.MethodGet,
					},
					Answer: &play.Answer{Code: http.StatusOK, Body: event},
				})
			}
		}
	}
	return all
}

// recorded waits for the end of a request in the log, and returns its events. A server may write it after
// its answer.
func (s *server) recorded(t *testing.T, id string) (found [][]byte) {
	t.Helper()
	harness.Eventually(t, "the audit log has the end of "+id, func() bool {
		content, err := os.ReadFile(s.audit)
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		found = nil
		for line := range bytes.Lines(content) {
			var event map[string]any
			if json.Unmarshal(line, &event) != nil || event["auditID"] != id {
				continue
			}
			delete(event, "requestReceivedTimestamp")
			delete(event, "stageTimestamp")
			if annotations, is := event["annotations"].(map[string]any); is {
				for key := range annotations { // how long it took
					if strings.HasPrefix(key, "apiserver.latency.k8s.io/") {
						delete(annotations, key)
					}
				}
			}
			raw, err := json.Marshal(event)
			if err != nil {
				t.Fatalf("encode as JSON: %v", err)
			}
			found = append(found, raw)
			status, _ := event["responseStatus"].(map[string]any)
			// A request of nobody is recorded once.
			if event["stage"] == "ResponseComplete" ||
				event["stage"] == "ResponseStarted" && status["code"] == float64(http.StatusUnauthorized) {
				return true
			}
		}
		return false
	})
	return found
}

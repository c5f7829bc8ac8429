package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
)

const listed = 10_000

// BenchmarkList measures LISTs of 10 000 objects with 1 KiB of payload: whole, in
// pages of 500, and by 8 clients at once.
func BenchmarkList(b *testing.B) {
	s := start(b)
	s.fill(b, listed)
	b.Logf("resident memory with %d objects: %d MiB", listed, s.rss(b)>>20)
	for _, clients := range []int{1, 8} {
		for _, limit := range []int{0, 500} {
			b.Run(fmt.Sprintf("clients=%d/limit=%d", clients, limit), func(b *testing.B) {
				client := s.client(clients)
				defer client.CloseIdleConnections()
				before := s.cpu(b)
				b.ResetTimer()
				if err := inParallel(clients, b.N, func(int) error { return readAll(b, client, s.url+collection, limit) }); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				b.ReportMetric(float64((s.cpu(b)-before).Microseconds())/float64(b.N)/1000, "server-cpu-ms/op")
			})
		}
	}
}

// readAll lists the collection page by page and counts what it gets.
func readAll(b *testing.B, client *http.Client, collection string, limit int) error {
	token, items := "", 0
	for {
		query := url.Values{}
		if limit > 0 {
			query.Set("limit", fmt.Sprint(limit))
		}
		if token != "" {
			query.Set("continue", token)
		}
		body, err := do(b.Context(), client, http.MethodGet, collection+"?"+query.Encode(), nil)
		if err != nil {
			return err
		}
		items += bytes.Count(body, []byte(`"uid":`))
		head := body[:bytes.Index(body, []byte(`"items":`))]
		var list struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(append(bytes.TrimRight(head, ", \n"), '}'), &list); err != nil {
			return fmt.Errorf("list head %s: %w", head, err)
		}
		if token = list.Metadata.Continue; token == "" {
			break
		}
	}
	if items < listed {
		return fmt.Errorf("listed %d objects instead of %d", items, listed)
	}
	return nil
}

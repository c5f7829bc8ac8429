package apiserver_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// unzipped reads an answer that must be one gzip member.
func unzipped(t testing.TB, a answer) string {
	t.Helper()
	if a.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("not compressed: %v", a.Header)
	}
	from := strings.NewReader(a.body)
	z, err := gzip.NewReader(from)
	if err != nil {
		t.Fatalf("make a reader: %v", err)
	}
	z.Multistream(false)
	plain, err := io.ReadAll(z)
	if err != nil || from.Len() != 0 {
		t.Fatalf("%v, %d bytes left", err, from.Len())
	}
	return string(plain)
}

// A list that is put together from blocks that earlier lists had is the list.
func TestCompressedListIsCurrentAfterWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	d := openServer(t, nil)
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 1))
	payload := func() string { return strings.Repeat(fmt.Sprintf("%x", r.Uint64()), 1+r.IntN(200)) }
	write := func() {
		name := fmt.Sprintf("cm-%03d", r.IntN(400))
		body := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"` + name + `","labels":{"x":"` +
			fmt.Sprint(r.IntN(2)) + `"}},"data":{"a":"` + payload() + `"}}`
		switch a := d.do("POST", configMaps, body); {
		case a.StatusCode == http.StatusConflict && r.IntN(3) == 0:
			d.do("DELETE", configMaps+"/"+name, "")
		case a.StatusCode == http.StatusConflict:
			d.do("PUT", configMaps+"/"+name, body)
		case a.StatusCode != http.StatusCreated:
			t.Fatal(a.body)
		}
	}
	for range 500 {
		write()
	}
	for round := range 30 {
		for range r.IntN(20) {
			write()
		}
		for _, query := range []string{"", "?limit=250", "?labelSelector=x%3D1", "?resourceVersion=0"} {
			want := d.do("GET", configMaps+query, "").body
			for range 2 {
				if got := unzipped(t, d.do("GET", configMaps+query, "", "Accept-Encoding: gzip")); got != want {
					t.Fatalf("round %d, %q: the compressed list is another: %d bytes instead of %d",
						round, query, len(got), len(want))
				}
			}
		}
	}
	if metrics := d.do("GET",
		"/metrics", "").body; strings.Contains(metrics, "\ngapless_list_compressed_bytes 0\n") ||
		!strings.Contains(metrics, "\ngapless_list_compressed_bytes ") {
		t.Error("no block is kept")
	}
}

func TestConcurrentCompressedListsAreCorrect(t *testing.T) {
	d := openServer(t, nil)
	for i := range 150 {
		body := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm-%d"},"data":{"a":"%s"}}`,
			i, strings.Repeat("x", 2000))
		if a := d.do("POST", configMaps, body); a.StatusCode != http.StatusCreated {
			t.Fatal(a.body)
		}
	}
	want := d.do("GET", configMaps, "").body
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				a, err := d.h2.Do(d.request("GET", configMaps, "", "Accept-Encoding: gzip"))
				if err != nil {
					t.Errorf("do h2: %v", err)
					return
				}
				raw, err := io.ReadAll(a.Body)
				if err := a.Body.Close(); err != nil {
					t.Errorf("close body: %v", err)
				}
				if err != nil || unzipped(t, answer{Response: a, body: string(raw)}) != want {
					t.Errorf("another list: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestNoAddressIsLostOrSharedAfterAKill kills the program while Services are created and deleted: after the next start
// each has addresses of its own, and no address is taken that no Service has.
func TestNoAddressIsLostOrSharedAfterAKill(t *testing.T) {
	t.Parallel()
	const services = "/api/v1/namespaces/default/services"
	dir := filepath.Join(t.TempDir(), "data")
	flags := []string{"--bootstrap", "server", "--service-cluster-ip-range", "10.0.0.0/20"}
	p := startProcessOn(t, dir, flags...)
	c := p.caller(t, http2)
	for life := range 3 {
		var wg sync.WaitGroup
		var done atomic.Int64
		for worker := range 16 {
			wg.Go(func() {
				for i := 0; ; i++ {
					name := fmt.Sprintf("s%d-%d-%d", life, worker, i)
					_, err := c.try(t.Context(), http.MethodPost, services,
						`{"metadata":{"name":"`+name+`"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`)
					if i%2 == 1 && err == nil {
						_, err = c.try(t.Context(), http.MethodDelete, services+"/"+name, "")
					}
					if err != nil {
						return // it was killed
					}
					done.Add(1)
				}
			})
		}
		until(t, "some Services are there", time.Minute, func() bool { return done.Load() > 100 })
		p.kill()
		wg.Wait()
		c.http.CloseIdleConnections()
		p = startProcessOn(t, dir, flags...)
		c = p.caller(t, http2)
		of := map[string]string{}
		items, _ := c.must(http.StatusOK, http.MethodGet, "/api/v1/services", "").at("items").([]any)
		for _, item := range items {
			o := tree(item.(map[string]any))
			for _, one := range []any{o.at("spec", "clusterIP"), o.at("spec", "ports").([]any)[0].(map[string]any)["nodePort"]} {
				if text := fmt.Sprint(one); one != nil {
					if of[text] != "" {
						t.Errorf("%s and %s have %s", of[text], o.key(), text)
					}
					of[text] = o.key()
				}
			}
		}
		taken, _ := c.must(http.StatusOK, http.MethodGet, "/apis/networking.k8s.io/v1/ipaddresses", "").at("items").([]any)
		for _, item := range taken {
			o := tree(item.(map[string]any))
			if name := fmt.Sprint(o.at("metadata", "name")); of[name] == "" {
				t.Errorf("%s is taken, and no Service has it", name)
			}
		}
		if len(taken) != len(items) {
			t.Errorf("%d IPAddresses for %d Services", len(taken), len(items))
		}
		t.Logf("%d Services after %d writes", len(items), done.Load())
	}
}

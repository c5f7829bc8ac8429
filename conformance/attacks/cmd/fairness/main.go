// Command fairness measures what one user costs another: the latencies of one that reads,
// writes and renews a lease 20 times a second, while another one sends lists, creates, watches
// or large bodies on 500 connections. It works with any Kubernetes API server, so that two can
// be compared (docs/decisions/0014).
//
//	fairness -url https://127.0.0.1:6443 -pki gapless-data/pki -group system:masters
package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

type options struct {
	url, pki, group, user, attack string
	objects, connections          int
	lasts                         time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.url, "url", "", "URL of the server")
	flag.StringVar(&o.pki, "pki", "", "directory with ca.crt and ca.key, which sign both users and the server")
	flag.StringVar(&o.group, "group", "", "group of both users")
	flag.StringVar(&o.user, "user", "", "internal: attack as this user")
	flag.StringVar(&o.attack, "attack", "", "internal: attack like this")
	flag.IntVar(&o.objects, "objects", 10_000, "objects in the collection that is listed")
	flag.IntVar(&o.connections, "connections", 500, "connections of the attacker")
	flag.DurationVar(&o.lasts, "for", 15*time.Second, "how long each attack lasts")
	flag.Parse()
	run := measure
	if o.attack != "" {
		run = attack
	}
	if err := run(context.Background(), o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fairness:", err)
		os.Exit(1)
	}
}

// web returns a client that is a user, over HTTP/1.1: each request under way has a connection.
func web(o options, name string) (*http.Client, error) {
	ca, err := tls.LoadX509KeyPair(filepath.Join(o.pki, "ca.crt"), filepath.Join(o.pki, "ca.key"))
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	subject := pkix.Name{CommonName: name}
	if o.group != "" {
		subject.Organization = []string{o.group}
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{
			RootCAs: roots, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		},
		MaxIdleConnsPerHost: o.connections, DisableCompression: true,
	}}, nil
}

// send returns the status of an answer that was read to its end.
func send(ctx context.Context, c *http.Client, method, url, body string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func configMap(name string, size int) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{%s},"data":{"x":%q}}`, name, strings.Repeat("x", size))
}

// attack sends the requests of one attack until its time is over, and counts the answers.
func attack(ctx context.Context, o options, out io.Writer) error {
	c, err := web(o, o.user)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.lasts)
	defer cancel()
	large := configMap(`"generateName":"large-"`, 1<<20)
	all := o.url + "/api/v1/namespaces/crowd/configmaps"
	var mu sync.Mutex
	codes := map[int]int{}
	var workers sync.WaitGroup
	for range o.connections {
		workers.Go(func() {
			for ctx.Err() == nil {
				code := 0
				switch o.attack {
				case "lists":
					code, _ = send(ctx, c, "GET", all, "")
				case "creates":
					code, _ = send(ctx, c, "POST", o.url+"/api/v1/namespaces/attacked/configmaps",
						configMap(`"generateName":"made-"`, 500))
				case "watches":
					code, _ = send(ctx, c, "GET", all+"?watch=1&timeoutSeconds=1&resourceVersion=0", "")
				case "bodies":
					code, _ = send(ctx, c, "POST", o.url+"/api/v1/namespaces/attacked/configmaps?dryRun=All", large)
				}
				mu.Lock()
				codes[code]++
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	_, err = fmt.Fprintf(out, "%v", codes)
	return err
}

// kinds are what the measured user does.
func kinds() []string { return []string{"get", "create", "lease"} }

// watchOver does what the measured user does until ctx ends, and returns the latencies by kind.
func watchOver(ctx context.Context, o options, c *http.Client) (map[string][]time.Duration, int) {
	took := map[string][]time.Duration{}
	failed := 0
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var mu sync.Mutex
	var under sync.WaitGroup
	lasting := context.WithoutCancel(ctx)
	renewing := make(chan struct{}, 1) // a holder renews its lease once at a time
	for {
		select {
		case <-ctx.Done():
			under.Wait()
			return took, failed
		case <-tick.C:
		}
		for _, kind := range kinds() {
			if kind == "lease" {
				select {
				case renewing <- struct{}{}:
				default:
					continue
				}
			}
			under.Go(func() {
				if kind == "lease" {
					defer func() { <-renewing }()
				}
				began := time.Now()
				code, err := 0, error(nil)
				switch kind {
				case "get":
					code, err = send(lasting, c, "GET", o.url+"/api/v1/namespaces/quiet/configmaps/one", "")
				case "create":
					code, err = send(lasting, c, "POST", o.url+"/api/v1/namespaces/quiet/configmaps",
						configMap(`"generateName":"q-"`, 500))
				case "lease":
					code, err = send(lasting, c, "PATCH", o.url+"/apis/coordination.k8s.io/v1/namespaces/quiet/leases/one",
						fmt.Sprintf(`{"spec":{"holderIdentity":"q-%d"}}`, began.UnixNano()))
				}
				mu.Lock()
				defer mu.Unlock()
				took[kind] = append(took[kind], time.Since(began))
				if err != nil || code/100 != 2 {
					failed++
				}
			})
		}
	}
}

func prepare(ctx context.Context, o options, c *http.Client) error {
	for _, ns := range []string{"quiet", "crowd", "attacked"} {
		if _, err := send(ctx, c, "POST", o.url+"/api/v1/namespaces", `{"metadata":{"name":"`+ns+`"}}`); err != nil {
			return err
		}
	}
	_, err := send(ctx, c, "POST", o.url+"/api/v1/namespaces/quiet/configmaps", configMap(`"name":"one"`, 500))
	if err == nil {
		_, err = send(ctx, c, "POST", o.url+"/apis/coordination.k8s.io/v1/namespaces/quiet/leases",
			`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"one"},"spec":{"holderIdentity":"q"}}`)
	}
	next := make(chan int, o.objects)
	for i := range o.objects {
		next <- i
	}
	close(next)
	var workers sync.WaitGroup
	var mu sync.Mutex
	for range 32 {
		workers.Go(func() {
			for i := range next {
				code, failed := send(ctx, c, "POST", o.url+"/api/v1/namespaces/crowd/configmaps",
					configMap(fmt.Sprintf(`"name":"c-%05d"`, i), 700))
				if failed == nil && code != 201 && code != 409 {
					failed = fmt.Errorf("create object %d: %d", i, code)
				}
				mu.Lock()
				err = errors.Join(err, failed)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return err
}

// measure prints a row per attack.
func measure(ctx context.Context, o options, out io.Writer) error {
	c, err := web(o, "quiet")
	if err != nil {
		return err
	}
	if err := prepare(ctx, o, c); err != nil {
		return err
	}
	for _, name := range []string{"", "lists", "creates", "watches", "bodies"} {
		limited, cancel := context.WithTimeout(ctx, o.lasts)
		var said bytes.Buffer
		ended := make(chan error, 1)
		if name == "" {
			ended <- nil
		} else {
			self := exec.CommandContext(ctx, "nice",
				append([]string{"-n", "10"}, append(os.Args, "-user", "attacker", "-attack", name)...)...)
			self.Stdout, self.Stderr = &said, os.Stderr
			go func() { ended <- self.Run() }() // ends with its time
		}
		took, failed := watchOver(limited, o, c)
		cancel()
		if err := <-ended; err != nil {
			return err
		}
		row := map[string]string{}
		for kind, all := range took {
			slices.Sort(all)
			row[kind] = fmt.Sprintf("%.1f/%.1f", ms(all[len(all)/2]), ms(all[len(all)*99/100]))
		}
		text, err := json.Marshal(row)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-8s %s of %d, failed %d; attacker's answers %s\n", name, text, len(took["get"]), failed, said.String())
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Command stock answers every request with one file from memory: what the standard library's TLS server costs for as
// many bytes, which is what a list is compared with. To those who watch it sends the file again and again, which is what an
// event is compared with. It ends with its input, as the reference server.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stock:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("stock", flag.ContinueOnError)
	file := flags.String("file", "", "the body of all answers")
	coding := flags.String("content-encoding", "", "of the file")
	cert := flags.String("tls-cert-file", "", "certificate of the server")
	key := flags.String("tls-private-key-file", "", "its key")
	every := flags.Duration("every", time.Second, "how often those who watch get the file")
	flags.String("client-ca-file", "", "nobody is asked for a certificate: it is there for who passes it to all servers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	body, err := os.ReadFile(*file)
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	watched := newFanout(body)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("watch") {
				watched.add(w)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			if *coding != "" {
				w.Header().Set("Content-Encoding", *coding)
			}
			_, _ = w.Write(body) // a client that is gone misses nothing
		})}
	if err := json.NewEncoder(out).Encode(map[string]string{"url": "https://" + listener.Addr().String()}); err != nil {
		return fmt.Errorf("say where it is: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go watched.run(ctx, *every) // ends with run
	go func() {                 // ends with the process
		_, _ = io.Copy(io.Discard, in)
		_ = server.Close()
	}()
	if err := server.ServeTLS(listener, *cert, *key); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

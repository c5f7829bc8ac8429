package gaplesstest

import "github.com/gapless-io/gapless"

// Option changes how a Server is made.
type Option func(*options)

type options struct {
	change   []func(*gapless.Config)
	inMemory bool
	seed     uint64
}

// Config changes the configuration of the server. What a Server needs for itself is set after
// it: memory mode, the disk, the directory of certificates, the listener and the logger.
func Config(change func(*gapless.Config)) Option {
	return func(o *options) { o.change = append(o.change, change) }
}

// Manifests applies the manifests in files and directories at the start (Server.Apply does it
// later), definitions first.
func Manifests(paths ...string) Option {
	return Config(func(c *gapless.Config) { c.From = append(c.From, paths...) })
}

// WithoutPort connects clients in memory: only those with the Dial of RESTConfig or User reach
// the server. Its connections work in a bubble of testing/synctest, where sockets do not.
func WithoutPort() Option { return func(o *options) { o.inMemory = true } }

// Seed is the seed of faults with a probability: the same requests fail in each run in which
// they come in the same order. The default is 0.
func Seed(seed uint64) Option { return func(o *options) { o.seed = seed } }

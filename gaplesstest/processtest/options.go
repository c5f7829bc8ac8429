package processtest

// Option changes how a Server is made.
type Option func(*options)

type options struct {
	program   string
	version   string
	flags     []string
	manifests []string
	seed      uint64
}

// Program is the path of the program gapless. Without it the variable GAPLESS_PROGRAM says it.
func Program(path string) Option { return func(o *options) { o.program = path } }

// Version is the version of the program that the go command builds if no path is given, like
// v1.2.3. The default is that of this module. A version is built once, and kept in the
// directory of the user's caches.
func Version(version string) Option { return func(o *options) { o.version = version } }

// Flags adds flags of gapless serve, in the place of Config of package gaplesstest. What a Server
// needs for itself is set after them: the directory, the address, the file that says that it is
// ready, and faults.
func Flags(flags ...string) Option {
	return func(o *options) { o.flags = append(o.flags, flags...) }
}

// Manifests applies the manifests in files and directories at each start (Server.Apply does it
// later), definitions first.
func Manifests(paths ...string) Option {
	return func(o *options) { o.manifests = append(o.manifests, paths...) }
}

// Seed is the seed of faults with a probability: the same requests fail in each run in which
// they come in the same order. The default is 1.
func Seed(seed uint64) Option { return func(o *options) { o.seed = seed } }

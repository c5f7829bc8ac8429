module github.com/gapless-io/gapless/compat/harness

go 1.26.0

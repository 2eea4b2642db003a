//! Layers: engines that wrap an engine. A layer knows only the traits of `windlass-core`.

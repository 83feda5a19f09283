package devchain

// Key is the key of the first account, which has ten thousand coins. Every anvil chain has this
// key, so it protects nothing.
const Key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"

"""The pages of `vgpumgr api`: templates over the answers of endpoints, and forms that call them."""

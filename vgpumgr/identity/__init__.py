"""Identity sources: each establishes who asks, from an account, a token, a certificate, a login."""
